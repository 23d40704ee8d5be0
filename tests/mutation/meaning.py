"""What a function does, without the sentences that no test should repeat."""

import ast


class _WithoutWords(ast.NodeTransformer):
    """Replaces what no test should repeat: sentences, and the types of casts."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """Replace a text of several words."""
        return ast.Constant("") if isinstance(node.value, str) and " " in node.value else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Replace the first argument of `cast`."""
        if isinstance(node.func, ast.Name) and node.func.id == "cast":
            node.args = node.args[1:]
        return self.generic_visit(node)  # type: ignore[return-value]


def meaning(text: str, function: str) -> list[str]:
    """Return what the functions of this name do, without words."""
    within: list[ast.AST] = [ast.parse(text)]
    for name in function.split("."):
        within = [
            node
            for outer in within
            for node in getattr(outer, "body", [])
            if getattr(node, "name", None) == name
        ]
    return [ast.dump(_WithoutWords().visit(node)) for node in within]
