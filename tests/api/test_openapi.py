import pytest

OPERATIONS = {
    "cancelJob",
    "createToken",
    "editJob",
    "enqueueTrial",
    "exportTrial",
    "getAdvice",
    "getBest",
    "getCurves",
    "getJob",
    "getLogs",
    "getMetrics",
    "getReport",
    "getSpace",
    "getTrial",
    "isAlive",
    "isReady",
    "listEvents",
    "listJobs",
    "listSpaces",
    "listTeams",
    "listTokens",
    "listTrials",
    "pauseJob",
    "planSpace",
    "putTeam",
    "registerModel",
    "resumeJob",
    "revokeToken",
    "stopJob",
    "submitJob",
    "whoAmI",
}


@pytest.fixture
def document(http):
    return http.get("/openapi.json").json()


def operations(document):
    return [operation for path in document["paths"].values() for operation in path.values()]


def test_operation_ids_are_stable(document):
    assert {operation["operationId"] for operation in operations(document)} == OPERATIONS


def test_every_error_is_documented_with_the_problem_shape(document):
    for operation in operations(document):
        assert "default" in operation["responses"]
        for status, response in operation["responses"].items():
            if status == "default" or int(status) >= 400:
                schema = response["content"]["application/problem+json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ProblemDetails"}, operation["operationId"]


def test_every_reference_leads_somewhere(document):
    def references(node):
        if isinstance(node, dict):
            if "$ref" in node:
                yield node["$ref"]
            for child in node.values():
                yield from references(child)
        elif isinstance(node, list):
            for child in node:
                yield from references(child)

    found = set(references(document))
    assert found
    for reference in found:
        assert reference.rpartition("/")[2] in document["components"]["schemas"]


def test_a_submission_documents_its_body_its_key_and_its_address(document):
    submit = document["paths"]["/v1/jobs"]["post"]
    assert set(submit["requestBody"]["content"]) == {"application/yaml", "application/json"}
    assert "Idempotency-Key" in [parameter["name"] for parameter in submit["parameters"]]
    assert "Location" in submit["responses"]["201"]["headers"]
