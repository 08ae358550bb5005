package observability

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Rules is a rule file of Prometheus.
type Rules struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []Rule `yaml:"rules"`
	} `yaml:"groups"`
}

// Rule is one alert.
type Rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// ReadRules reads a rule file, in which there is nothing but alerts.
func ReadRules(path string) ([]Rule, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	var file Rules
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("read the rules of %s: %w", path, err)
	}
	var all []Rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all, nil
}

// RunbookPage is the page that a rule's runbook_url names, without the heading.
const RunbookPage = "https://github.com/holdfast-storage/holdfast/blob/main/deploy/ALERTS.md"

// Check returns what is wrong with the rule, given the metrics that there are.
func (r Rule) Check(metrics map[string]Metric) []string {
	var problems []string
	add := func(format string, args ...any) {
		problems = append(problems, r.Alert+": "+fmt.Sprintf(format, args...))
	}
	if !strings.HasPrefix(r.Alert, "Holdfast") {
		add("its name does not begin with Holdfast")
	}
	if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
		add("its severity is %q", r.Labels["severity"])
	}
	if r.For == "" {
		add("it does not say for how long")
	}
	if want := RunbookPage + "#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
		add("its runbook_url is not %s", want)
	}
	if s := r.Annotations["summary"]; !strings.HasSuffix(s, ".") || strings.Contains(s, ". ") {
		add("its summary is not one sentence: %q", s)
	}
	for _, problem := range CheckExpression(r.Expr, metrics) {
		add("%s", problem)
	}
	return problems
}

var (
	quoted   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	metricIn = regexp.MustCompile(`\b((?:holdfast|process|go)_[a-z0-9_]+)(\{[^}]*\})?`)
	labelIn  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
)

// targetLabels are those that Prometheus gives the series of a target, and le of histograms.
var targetLabels = []string{"instance", "job", "le"}

// CheckExpression returns the metrics and the labels in selectors that there are not.
func CheckExpression(expr string, metrics map[string]Metric) (problems []string) {
	for _, m := range metricIn.FindAllStringSubmatch(quoted.ReplaceAllString(expr, `""`), -1) {
		metric, known := metricOf(m[1], metrics)
		if !known {
			problems = append(problems, "there is no metric "+m[1])
			continue
		}
		for _, l := range labelIn.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(metric.Labels, l[1]) && !slices.Contains(targetLabels, l[1]) {
				problems = append(problems, fmt.Sprintf("%s has no label %s", m[1], l[1]))
			}
		}
	}
	return problems
}

// metricOf finds the metric of a series: a histogram's have other names.
func metricOf(series string, metrics map[string]Metric) (Metric, bool) {
	if m, ok := metrics[series]; ok {
		return m, m.Type != "histogram"
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if m, ok := metrics[strings.TrimSuffix(series, suffix)]; ok && m.Type == "histogram" {
			return m, true
		}
	}
	return Metric{}, false
}
