package stories

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const junit = `<testsuites><testsuite name="Kubernetes e2e suite">
<testcase name="[It] [sig-node] Pods should run" status="skipped"><skipped message="skipped"></skipped></testcase>
<testcase name="[It] External Storage [Driver: d] mounts" status="passed" time="2.25"></testcase>
<testcase name="[It] External Storage [Driver: d] grows" status="failed" time="9"><failure message="" type="failed">x</failure></testcase>
<testcase name="[It] External Storage [Driver: d] inline a" status="skipped"><skipped message="skipped - Driver d has no inline volumes&#xA;more"></skipped></testcase>
<testcase name="[It] External Storage [Driver: d] inline b" status="skipped"><skipped message="skipped - Driver d has no inline volumes"></skipped></testcase>
<testcase name="[It] External Storage [Driver: d] kubelet [Disruptive]" status="skipped"><skipped message="skipped"></skipped></testcase>
<testcase name="[It] External Storage [Driver: d] another" status="skipped"><skipped message="skipped"></skipped></testcase>
</testsuite></testsuites>`

func TestTheReportOfTheSuiteSaysWhatRanAndWhyNot(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "junit.xml"), []byte(junit), 0o600))
	tests, err := readSuite(filepath.Join(dir, "junit.xml"))
	require.NoError(t, err)
	results, err := writeSuite(filepath.Join(dir, "page.md"), "The suite", tests)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"passed": 1, "failed": 1, "skipped": 4}, results)
	page, err := os.ReadFile(filepath.Join(dir, "page.md"))
	require.NoError(t, err)
	require.Contains(t, string(page), "6 tests are of the driver: 1 failed, 1 passed, 4 skipped.")
	require.Contains(t, string(page), "| 2 | Driver d has no inline volumes |")
	require.Contains(t, string(page), "| 1 | left out: Disruptive |")
	require.Contains(t, string(page), "| 1 | not in the focus of this run, or the run ended before it |")
	require.Regexp(t, `(?s)\| failed \| 9.0 \|.*\| passed \| 2.2 \|`, string(page))
	for _, l := range leftOut {
		require.Contains(t, string(page), l.Why)
	}
}

func TestAReportWithoutTestsOfTheDriverIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "junit.xml")
	require.NoError(t, os.WriteFile(path, []byte(`<testsuites><testsuite><testcase name="[It] other" status="passed"/></testsuite></testsuites>`), 0o600))
	_, err := readSuite(path)
	require.ErrorContains(t, err, "no test of External Storage")
}
