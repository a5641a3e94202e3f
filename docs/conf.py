"""How Sphinx makes the site of this folder: `make docs`. What the site needs is all here, so it builds without a network.

Pages are Markdown (MyST). Their examples are run by tests/test_docs.py, whatever this file says.
"""

import re
from pathlib import Path

from sphinx.ext.napoleon import Config, GoogleDocstring

import goblin  # the installed one: the reference is made of its docstrings

project = "goblin"
author = "goblin contributors"
copyright = author
release = version = goblin.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "transcripts"]

myst_enable_extensions = ["colon_fence", "attrs_block"]
myst_heading_anchors = 3  # so that [text](page.md#a-heading) is checked

# `name` in a docstring is code. :func:`name` and the like are links, and one that leads nowhere is an error.
default_role = "code"
smartquotes = False  # "k" and b"k" in a docstring are Python
nitpicky = True
nitpick_ignore_regex = [
    # Python's own and other libraries': a link would need their inventories, and so a network.
    ("py:.*", r"(collections\.abc|datetime|typing|types|limits)\..*"),
    ("py:.*", r"(int|str|bytes|bool|float|dict|list|tuple|object|Any|Callable|timedelta|\w*Error|Exception|optional)"),
]

autodoc_member_order = "bysource"  # for what is compiled: as the class lists it
autodoc_typehints = "none"  # the docstrings say it, with units and ranges; the types are in the stubs
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = f"goblin {release}"
html_static_path = ["_static"]
html_css_files = ["goblin.css"]
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"color-brand-primary": "#1a6b3c", "color-brand-content": "#1a6b3c"},
    "dark_css_variables": {"color-brand-primary": "#6fcf97", "color-brand-content": "#6fcf97"},
}


# ---- what Sphinx cannot know ----------------------------------------------------------------------------------------

DOCS = Path(__file__).resolve().parent


def name_what_is_elsewhere(text, folder):
    """A link to a file of the repository that is not on the site becomes the file's name; GitHub shows the link."""

    def replaced(match):
        words, target = match["words"], match["target"]
        path = (folder / target).resolve()
        if path.is_dir() or (path.exists() and not path.is_relative_to(DOCS)):
            name = path.relative_to(DOCS.parent).as_posix()
            return f"`{name}`" if words.strip("`").endswith(path.name) else f"{words} (`{name}`)"
        return match[0]

    return re.sub(r"(?<!!)\[(?P<words>[^\]\n]+)\]\((?P<target>(?!https?:|#)[^)#\s]+)\)", replaced, text)


def on_source_read(app, docname, source):
    source[0] = name_what_is_elsewhere(source[0], (DOCS / docname).parent)


def on_include_read(app, path, docname, source):
    source[0] = name_what_is_elsewhere(source[0], DOCS.parent / Path(path).parent)


def on_docstring(app, what, name, thing, options, lines):
    """`Args:` and the like of the decorators. (As an extension napoleon would take "Seconds: ..." for a type as well.)"""
    if what == "function":
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, thing, options).lines()


def setup(app):
    app.connect("source-read", on_source_read)
    app.connect("include-read", on_include_read)
    app.connect("autodoc-process-docstring", on_docstring)
