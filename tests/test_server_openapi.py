"""The server is what its description says: schemathesis sends it what the description allows, and what it doesn't."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import BaseModel
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from servers import add_spoken, listening
from small_memories import EMBEDDER, PATIENCE

from scrubjay.datatypes import Usage
from scrubjay.home import MemoryHome
from scrubjay.llm import ChatRequest, Completion, Reply
from scrubjay.server import ServerSettings, create_app
from scrubjay.server.keys import KEYS_FILE, KeyRing, Right

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from schemathesis import Case

PROXY = "/v1/chat/completions"  # answers as the server behind it does: tests/test_server_proxy.py
FEW = settings(
    max_examples=15, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


@schemathesis.serializer("application/x-ndjson")
def send_text(_: object, value: object) -> bytes:
    """Send what is generated for a bulk upload as it is."""
    return str(value).encode("utf-8", "replace")


def describe_operations() -> dict[str, Any]:
    """Give the operations of the description, by name."""
    with tempfile.TemporaryDirectory() as folder, MemoryHome(folder) as home:
        schema = schemathesis.openapi.from_dict(create_app(home).openapi())
    operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]  # the description is valid
    own = (operation for operation in operations if operation.path != PROXY)
    return {operation.label: operation for operation in own}


OPERATIONS = describe_operations()


class Yes:
    """A model that answers yes, and finds nothing worth a record."""

    name = "yes"

    def complete(self, request: ChatRequest, output: type[Reply]) -> Completion[Reply]:
        value = (
            output.model_validate({"records": [], "note": ""})
            if issubclass(output, BaseModel)
            else output("yes [1]")
        )
        usage = Usage(stage=request.stage, model=self.name, calls=1, input_tokens=1, output_tokens=1)
        return Completion(value=value, text="yes", truncated=False, usage=usage)

    def stream(self, request: ChatRequest) -> Generator[str, None, Completion[str]]:
        yield "yes"
        return self.complete(request, str)

    def close(self) -> None:
        """Do nothing: there is no connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Where a server is, and a key to it."""

    url: str
    headers: dict[str, str]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a small conversation, to whoever has the key."""
    folder = tmp_path_factory.mktemp("home")
    ring = KeyRing(folder / KEYS_FILE)
    headers = {"Authorization": f"Bearer {ring.add('all', right=Right.ADMIN)[1]}"}
    with (
        MemoryHome(folder, embedder=EMBEDDER, model=Yes()) as home,
        listening(create_app(home, keys=ring, settings=ServerSettings(rate=""))) as port,
    ):
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=PATIENCE) as client:
            add_spoken(client)
        yield Served(url=f"http://127.0.0.1:{port}", headers=headers)
    ring.close()


BOTH_WAYS = [
    (name, mode)
    for name in OPERATIONS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or "/v1/" in name  # the others take nothing that could be wrong
]


@pytest.mark.parametrize(("name", "mode"), BOTH_WAYS, ids=lambda part: getattr(part, "value", part))
def test_the_description_holds(served: Served, name: str, mode: GenerationMode) -> None:
    """Every answer has a status, content type and shape that the description names; nothing makes the server fail."""

    @given(case=OPERATIONS[name].as_strategy(generation_mode=mode))
    @FEW
    def hold(case: Case[Any]) -> None:
        # a schema can't say that a time has a zone, or that a turn has a text or a caption
        case.call_and_validate(
            base_url=served.url, headers=served.headers, excluded_checks=[positive_data_acceptance]
        )

    hold()


def test_every_route_is_described(served: Served) -> None:
    """Each route says what it does, what it answers, and how it refuses."""
    paths = httpx2.get(f"{served.url}/openapi.json", timeout=PATIENCE).json()["paths"]
    assert len(paths) > 15
    for path, methods in paths.items():
        for method, described in methods.items():
            assert described["description"], (path, method)
            if path.startswith("/v1/"):
                assert {"401", "403", "404", "422", "429", "503"} <= set(described["responses"])
                assert described["security"] == [{"HTTPBearer": []}]
