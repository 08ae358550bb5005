package observability

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	files        = "../../deploy/chart/files"
	metricsPage  = "../../deploy/METRICS.md"
	alertsPage   = "../../deploy/ALERTS.md"
	commandsPage = "../../deploy/COMMANDS.md"
)

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func readAlerts(t *testing.T) []Rule {
	t.Helper()
	rules, err := ReadRules(filepath.Join(files, "alerts.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, rules)
	return rules
}

// requirePromtool skips where promtool is missing, but not in CI.
func requirePromtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	err := promtool(dir, args...)
	if errors.Is(err, errNoPromtool) && !mustHavePromtool() {
		t.Skip("skipped: " + err.Error())
	}
	require.NoError(t, err)
}

func TestEveryAlertIsWellFormedAndNamesMetricsThatExist(t *testing.T) {
	metrics := ParseMetrics(readPage(t, metricsPage))
	seen := map[string]bool{}
	for _, r := range readAlerts(t) {
		require.Empty(t, r.Check(metrics))
		require.False(t, seen[r.Alert], "%s is there twice", r.Alert)
		seen[r.Alert] = true
	}
}

func TestEveryAlertHasItsSection(t *testing.T) {
	require.Empty(t, CheckAlertsPage(readPage(t, alertsPage), readAlerts(t), ParseCommands(readPage(t, commandsPage))))
}

// ruleTests are the files with tests of rules; the second is of those that need hours or days.
var ruleTests = []string{"alerts_test.yaml", "alerts_days_test.yaml"}

// TestAlertsFireWithTheirFaults: each alert is brought about in ruleTests, and is silent without its fault.
func TestAlertsFireWithTheirFaults(t *testing.T) {
	tests := ""
	for _, file := range ruleTests {
		tests += readPage(t, filepath.Join(files, file))
	}
	for _, r := range readAlerts(t) {
		_, section, found := strings.Cut(tests, "  - name: "+r.Alert+"\n")
		section, _, _ = strings.Cut(section, "  - name: ")
		require.True(t, found, "%s has no test", r.Alert)
		require.Regexp(t, regexp.MustCompile(`alertname: `+r.Alert+`\n        exp_alerts:\n          - exp_labels`), section, "%s is never brought about", r.Alert)
		require.Regexp(t, regexp.MustCompile(`eval_time: \d+m, alertname: `+r.Alert+`\}`), section, "%s is never silent", r.Alert)
	}
	requirePromtool(t, files, "check", "rules", "alerts.yaml")
	requirePromtool(t, files, append([]string{"test", "rules"}, ruleTests...)...)
}

func TestWhatIsWrongWithARuleIsFound(t *testing.T) {
	metrics := map[string]Metric{"holdfast_a": {Name: "holdfast_a", Type: "gauge", Labels: []string{"state"}}, "holdfast_b_seconds": {Name: "holdfast_b_seconds", Type: "histogram"}}
	right := Rule{Alert: "HoldfastA", Expr: `max(holdfast_a{state="x{y}"}) / rate(holdfast_b_seconds_bucket{le="1"}[5m]) > 0`, For: "1m",
		Labels:      map[string]string{"severity": "info"},
		Annotations: map[string]string{"summary": "Do it.", "runbook_url": RunbookPage + "#holdfasta"}}
	require.Empty(t, right.Check(metrics))
	for problem, spoil := range map[string]func(*Rule){
		"begin with Holdfast":   func(r *Rule) { r.Alert = "A"; r.Annotations["runbook_url"] = RunbookPage + "#a" },
		"severity":              func(r *Rule) { r.Labels["severity"] = "page" },
		"for how long":          func(r *Rule) { r.For = "" },
		"runbook_url":           func(r *Rule) { r.Annotations["runbook_url"] = RunbookPage },
		"one sentence":          func(r *Rule) { r.Annotations["summary"] = "It is down. Do it." },
		"no metric holdfast_c":  func(r *Rule) { r.Expr = "holdfast_c > 0" },
		"no label zone":         func(r *Rule) { r.Expr = `holdfast_a{zone=~"x"} > 0` },
		"no metric holdfast_b_": func(r *Rule) { r.Expr = "holdfast_b_seconds > 0" },
	} {
		r := right
		r.Labels, r.Annotations = map[string]string{"severity": "info"}, map[string]string{"summary": "Do it.", "runbook_url": RunbookPage + "#holdfasta"}
		spoil(&r)
		require.Len(t, r.Check(metrics), 1, problem)
		require.Contains(t, r.Check(metrics)[0], problem)
	}
}

func TestWhatIsWrongWithASectionIsFound(t *testing.T) {
	commands := ParseCommands("\n## Flags of the commands that ask a cluster\n| `--output` f |\n## holdfast nodes reboot-safe NODE\nSay. It asks a cluster.\n| `--yes` |\n## holdfast doctor\nLook.\n")
	require.Equal(t, []string{"--yes", "--output"}, commands["holdfast nodes reboot-safe"])
	right := "# Alerts\n\n## HoldfastA\n**Means:** a\n\n**Users feel:** b\n\n**Type:** c\n\n```sh\nholdfast nodes reboot-safe \"$NODE\" --yes --output wide\nlvs\n```\n\n**Over** d\n"
	alerts := []Rule{{Alert: "HoldfastA"}}
	require.Empty(t, CheckAlertsPage(right, alerts, commands))
	for problem, page := range map[string]string{
		"HoldfastA has no section":     strings.ReplaceAll(right, "\n## HoldfastA\n", "\n"),
		"HoldfastB is no alert":        right + "\n## HoldfastB\n",
		`"**Users feel:**" is missing`: strings.ReplaceAll(right, "**Users feel:** ", ""),
		`"**Over**" is missing`:        strings.ReplaceAll(right, "**Over** ", ""),
		"there is no such command":     strings.ReplaceAll(right, "nodes reboot-safe", "nodes reboot"),
		"it has no flag --force":       strings.ReplaceAll(right, "--yes", "--force"),
		"nothing is to be typed":       strings.ReplaceAll(right, "```sh", "```"),
	} {
		problems := CheckAlertsPage(page, alerts, commands)
		require.NotEmpty(t, problems, problem)
		require.Contains(t, strings.Join(problems, "\n"), problem)
	}
}
