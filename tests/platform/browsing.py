"""A real Chromium with a fresh profile, driven by the DevTools protocol."""

import asyncio
import base64
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0"),
]

Send = Callable[..., Awaitable[dict[str, Any]]]


@contextmanager
def chromium(profile: Path) -> Iterator[str]:
    """A browser that ends with the block; yields the address of its debugger."""
    process = subprocess.Popen([str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = next((line for line in process.stderr if "DevTools listening on" in line), "")
        assert line, "chromium ended before it was ready"
        yield line.split()[-1]
    finally:
        process.kill()
        process.wait()


class Tab:
    """A page that is open: `run` evaluates JavaScript in it, `until` waits for it to be true."""

    def __init__(self, send: Send) -> None:
        self.send = send

    async def run(self, script: str) -> Any:
        answer = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, script: str, seconds: float = 60) -> Any:
        limit = asyncio.get_running_loop().time() + seconds
        while not (value := await self.run(script)):
            if asyncio.get_running_loop().time() > limit:
                raise AssertionError(
                    f"never true: {script}; the page says: {await self.run('document.body.innerText')}"
                )
            await asyncio.sleep(0.2)
        return value

    async def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode((await self.send("Page.captureScreenshot", format="png"))["data"]))


@asynccontextmanager
async def visit(address: str, url: str, width: int = 1280, height: int = 800) -> AsyncIterator[Tab]:
    """Open `url` in a new tab of this size."""
    answers: dict[int, asyncio.Future[Any]] = {}
    async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as socket:

        async def listen() -> None:
            async for message in socket:
                event = json.loads(message.data)
                if "id" in event:
                    answers.pop(event["id"]).set_result(event)

        async def send(method: str, session_id: str = "", **params: Any) -> dict[str, Any]:
            number = max(answers, default=send_count[0]) + 1
            send_count[0] = number
            answers[number] = asyncio.get_running_loop().create_future()
            message = {"id": number, "method": method, "params": params}
            await socket.send_str(json.dumps(message | ({"sessionId": session_id} if session_id else {})))
            answer = await asyncio.wait_for(answers[number], 60)
            assert "error" not in answer, answer
            result: dict[str, Any] = answer["result"]
            return result

        send_count = [0]
        listener = asyncio.create_task(listen())
        target = (await send("Target.createTarget", url="about:blank"))["targetId"]
        inside = (await send("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]

        async def send_inside(method: str, **params: Any) -> dict[str, Any]:
            return await send(method, inside, **params)

        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await send_inside("Emulation.setDeviceMetricsOverride", **size)
        await send_inside("Page.navigate", url=url)
        try:
            yield Tab(send_inside)
        finally:
            await send("Target.closeTarget", targetId=target)
            listener.cancel()
