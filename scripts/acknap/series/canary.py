"""`canary`: does the newest series apply to what PyTorch releases next?"""

from dataclasses import replace

from packaging.version import Version

from acknap.base.errors import SeriesError
from acknap.base.layout import Layout
from acknap.base.progress import working
from acknap.series import tree
from acknap.series.patches import load
from acknap.upstream import wheel_reader
from acknap.upstream.targets import Targets


def run_canary(layout: Layout, targets: Targets) -> int:
    """Apply the newest release's series to the newest pre-release on pip's index.

    Returns:
        1 if a patch does not apply, which is named; 0 too if there is no pre-release.

    Raises:
        HarnessError: the index does not answer, or a file of the series is gone.
    """
    newest = max(targets.all, key=lambda one: Version(one.release))
    release = wheel_reader.newest_pre_release(newest.release)
    if release is None:
        print(f"pip's index has no pre-release of torch after {newest.release}")
        return 0
    series = load(layout, newest.series)
    with working(f"Applying patches/{newest.series} to torch {release}"):
        scratch = layout.build / "pristine"
        files = wheel_reader.read_from_wheel(release, newest.files, scratch)
        target = replace(newest, name=f"v{release}", release=release)
        try:
            with tree.temporary(target, files, series):
                pass
        except SeriesError as error:
            print(error)
            return 1
    count = len(series.all)
    print(f"all {count} patches of patches/{newest.series} apply to {target.name}")
    return 0
