import asyncio, base64, io
from PIL import Image
from tests.browser.stage import ANN, LEE, Stage
from tests.browser.window import Windows
from playwright.async_api import expect

def picture(size=(900, 600)):
    out = io.BytesIO(); Image.effect_mandelbrot(size, (-2, -1.2, 1, 1.2), 60).convert("RGB").save(out, "PNG"); return out.getvalue()

def content(*files):
    import outlast.serve.uploads as u
    return [{"role": "user", "content": [{"type": "input_text", "text": "say Thanks, I see the **broken** cup."}, *(u.part_of(n, c) for n, c in files)]}]

async def test_shots(stage: Stage, windows: Windows) -> None:
    handle = await stage.start_run("Writer", content(("cup.png", picture()), ("<script>alert(1).txt", b"hello"), ("bill.pdf", b"%PDF-1.4 x")), "shot-1")
    await handle.wait_for_answer("start")
    await handle.send('call refund {"amount": 389, "customer": "Ann Smith"}')
    await handle.wait_for_people()
    for width, height in ((1280, 900), (390, 844)):
        for theme in ("light", "dark"):
            context = await windows.browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
            page = await context.new_page()
            await page.goto(f"{stage.url()}/conversations/shot-1")
            await page.wait_for_timeout(800)
            await page.screenshot(path=f"/tmp/shots/talk-{width}-{theme}.png")
            if theme == "light":
                await page.locator("#decide summary", has_text="Reject").click()
                await page.locator("#reject-message").fill("Only with a receipt.")
                await page.screenshot(path=f"/tmp/shots/reject-{width}.png")
                await page.reload()
                await page.wait_for_timeout(500)
                await page.screenshot(path=f"/tmp/shots/draft-{width}.png")
                await page.locator(".picture").first.click()
                await page.wait_for_timeout(300)
                await page.screenshot(path=f"/tmp/shots/enlarged-{width}.png")
            await context.close()
