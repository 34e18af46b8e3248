"""Strongly connected components of a directed graph."""


def strongly_connected(nodes: list[int], feeds: dict[int, set[int]]) -> list[list[int]]:
    """Strongly connected components, in topological order (Tarjan, in a loop)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    components: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(sorted(feeds[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            child = next((c for c in successors if c not in index), None)
            if child is not None:
                index[child] = low[child] = len(index)
                stack.append(child)
                on_stack.add(child)
                work.append((child, iter(sorted(feeds[child]))))
                continue
            work.pop()
            for c in feeds[node]:
                if c in on_stack:
                    low[node] = min(low[node], low[c])
            if low[node] == index[node]:
                component: list[int] = []
                while not component or component[-1] != node:
                    component.append(stack.pop())
                    on_stack.discard(component[-1])
                components.append(component)
    return components[::-1]
