# The service, MLflow, the head of Ray, and trials on the CPU. Python and Ray must be the same on all machines of a cluster:
# Dockerfile.gpu has the same ones.
FROM python:3.11-slim-bookworm

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1 HF_HOME=/var/lib/autotune/hf
# pg_dump for `autotune db backup`, procps for Ray.
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-client procps && rm -rf /var/lib/apt/lists/*
RUN pip install uv==0.13.9

WORKDIR /opt/autotune
COPY requirements/cpu.txt requirements/cpu.txt
# --no-deps: the lock file is complete, and leaves out torchvision on purpose.
RUN uv pip install --system --no-cache --no-deps --torch-backend cpu -r requirements/cpu.txt

COPY pyproject.toml README.md LICENSE ./
COPY autotune autotune
COPY trainer trainer
COPY conf conf
COPY search_spaces search_spaces
COPY dashboards/web dashboards/web
RUN pip install hatchling==1.33.0 && pip install --no-deps --no-build-isolation .
COPY deploy/join-ray /usr/local/bin/join-ray

RUN useradd --uid 1000 --create-home autotune && install -d -o autotune /var/lib/autotune /var/lib/mlflow /models
USER autotune
WORKDIR /var/lib/autotune
EXPOSE 8765
CMD ["autotune", "serve"]
