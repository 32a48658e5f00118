"""Links from the HTML representation of an estimator to its page in the documentation.

Used by `conformal`, `distributed`, `estimators`, `features`, `pipeline` and `score_models`.
"""

from importlib import import_module

PACKAGE = __name__.partition(".")[0]
SITE = "https://sklearn-sparsemap.github.io/sklearn-sparsemap"  # address of the built site, without a slash at its end


class DocLinkMixin:
    """The documentation link of an estimator, for scikit-learn's HTML representation.

    scikit-learn makes no link for classes of other packages, such as a user's subclass.
    """

    _doc_link_module = PACKAGE
    _doc_link_template = SITE + "/generated/{name}.html"

    def _doc_link_url_param_generator(self):
        name = type(self).__name__
        room = PACKAGE if hasattr(import_module(PACKAGE), name) else ".".join(type(self).__module__.split(".")[:2])
        return {"name": f"{room}.{name}"}
