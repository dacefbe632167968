"""Pages that the site makes from data: one per rule of the linter, and their index."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from railwright.check.configs import config_rule_texts
from railwright.check.engine import rule_texts


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the rule pages."""
    index = ["# Rules", "", "| code | severity | rule |", "|---|---|---|"]
    for code, text in sorted((rule_texts() | config_rule_texts()).items()):
        index.append(f"| [{code}]({code}.md) | {text.severity.value} | {text.title} |")
        page = (
            f"# {code}: {text.title}\n\nSeverity: **{text.severity.value}**\n\n## What\n\n{text.what}\n\n## Why\n\n{text.why}\n\n"
            f"## How to mend it\n\n{text.fix}\n\nTo live with it, write a comment with the reason into the spec:\n\n"
            f"```yaml\n# railwright: ignore {code} because …\n```\n\n## Source\n\n{text.source}\n"
        )
        files.append(File.generated(config, f"rules/{code}.md", content=page))
    files.append(File.generated(config, "rules/index.md", content="\n".join(index) + "\n"))
    return files
