-- MLflow has a database of its own: its migrations and Optuna's both call their table alembic_version.
CREATE DATABASE mlflow;
