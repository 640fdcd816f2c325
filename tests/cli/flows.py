"""Files with flows, as users write them."""

from pathlib import Path

SHOP = """
import msgspec
from millstream.flow import Flow
from rules import parity_of

class Order(msgspec.Struct, frozen=True):
    cents: int

def add(total: int, order: Order) -> int:
    return total + order.cents

def cents(order: Order) -> int:
    return 100 // order.cents

flow = Flow("shop", on_error="skip")
orders = flow.source("orders", key=str, value=Order).group_by_key()
totals = orders.fold(0, add)
totals.sink("totals")
totals.group_by(parity_of).count().sink("parity")
orders.map(cents).sink("shares")
"""

RULES = """
def parity_of(total: int) -> str:
    return "even" if total % 2 == 0 else "odd"
"""


def shop_in(folder: Path) -> Path:
    """The file of a flow, and beside it a module that it imports."""
    (folder / "rules.py").write_text(RULES)
    return written(folder, SHOP, "shop.py")


def written(folder: Path, text: str, name: str = "flow.py") -> Path:
    """A file with this text."""
    file = folder / name
    file.write_text(text)
    return file
