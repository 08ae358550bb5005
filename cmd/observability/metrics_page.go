package observability

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is one row of the page.
type Metric struct {
	Name, Type, Unit, Meaning string
	Labels                    []string
}

// UpdateSection makes the section of the page list what a registry has, under "## " and its title, and returns whether the page was
// so already. It writes the page only with write.
func UpdateSection(page, title string, registry *prometheus.Registry, write bool) (current bool, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return false, err
	}
	metrics, err := registered(registry)
	if err != nil {
		return false, err
	}
	updated, err := replaceSection(string(text), title, renderMetrics(metrics))
	if err != nil || updated == string(text) || !write {
		return updated == string(text), err
	}
	return true, os.WriteFile(page, []byte(updated), 0o644)
}

// replaceSection replaces the table of a section, and nothing before it.
func replaceSection(text, title, table string) (string, error) {
	before, section, found := strings.Cut(text, "\n## "+title+"\n")
	if !found {
		return "", fmt.Errorf("the page has no section %q", title)
	}
	section, after, more := strings.Cut(section, "\n## ")
	if more {
		after = "\n## " + after
	}
	words, _, _ := strings.Cut(section, tableHead)
	if words = strings.TrimSpace(words); words != "" {
		words += "\n"
	}
	return before + "\n## " + title + "\n" + words + "\n" + table + after, nil
}

const tableHead = "| Metric | Type | Labels | Unit | Meaning |\n|---|---|---|---|---|\n"

func renderMetrics(metrics []Metric) string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, m := range metrics {
		labels := make([]string, len(m.Labels))
		for i, l := range m.Labels {
			labels[i] = "`" + l + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Type, strings.Join(labels, ", "), m.Unit, strings.ReplaceAll(m.Meaning, "|", `\|`))
	}
	return b.String()
}

var metricRow = regexp.MustCompile("(?m)^\\| `([a-z_0-9]+)` \\| ([a-z]+) \\| ([^|]*) \\| ([^|]*) \\| (.*) \\|$")

// ParseMetrics returns the metrics that a page lists, by name.
func ParseMetrics(page string) map[string]Metric {
	all := map[string]Metric{}
	for _, m := range metricRow.FindAllStringSubmatch(page, -1) {
		row := Metric{Name: m[1], Type: m[2], Unit: m[4], Meaning: m[5]}
		if m[3] != "" {
			row.Labels = strings.Split(strings.ReplaceAll(m[3], "`", ""), ", ")
		}
		all[row.Name] = row
	}
	return all
}

var descText = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// registered lists the metrics of this product that are registered, whether they have a series yet or not.
func registered(registry *prometheus.Registry) ([]Metric, error) {
	descs := make(chan *prometheus.Desc, 1<<12)
	registry.Describe(descs)
	close(descs)
	types, err := gatheredTypes(registry)
	if err != nil {
		return nil, err
	}
	all := map[string]Metric{}
	for d := range descs {
		m, err := parseDesc(d.String())
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(m.Name, "holdfast_") {
			continue // the runtime's
		}
		if m.Type = types[m.Name]; m.Type == "" {
			m.Type = typeByName(m.Name)
		}
		m.Unit = unitOf(m.Name)
		all[m.Name] = m
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Metric) int { return strings.Compare(a.Name, b.Name) }), nil
}

func gatheredTypes(registry *prometheus.Registry) (map[string]string, error) {
	families, err := registry.Gather()
	types := map[string]string{}
	for _, f := range families {
		types[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	return types, err
}

// parseDesc reads what the library says of a metric; it has no other way to tell.
func parseDesc(text string) (Metric, error) {
	m := descText.FindStringSubmatch(text)
	if m == nil {
		return Metric{}, fmt.Errorf("the library's text of a metric is not as expected: %s", text)
	}
	name, err := strconv.Unquote(m[1])
	if err != nil {
		return Metric{}, err
	}
	help, err := strconv.Unquote(m[2])
	if err != nil {
		return Metric{}, err
	}
	return Metric{Name: name, Meaning: help, Labels: labelsOf(m[3], m[4])}, nil
}

func labelsOf(constant, variable string) (labels []string) {
	for _, l := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(constant, -1) {
		labels = append(labels, l[1])
	}
	if variable != "" {
		labels = append(labels, strings.Split(variable, ",")...)
	}
	return labels
}

// typeByName is for a metric that has no series yet: one with labels of which none was used.
func typeByName(name string) string {
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case strings.HasSuffix(name, "_timestamp_seconds"):
		return "gauge"
	case strings.HasSuffix(name, "_seconds"):
		return "histogram"
	}
	return "gauge"
}

// unitOf is the unit that the name ends in, as Prometheus' naming has it.
func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_total")
	switch {
	case strings.HasSuffix(name, "_timestamp_seconds"):
		return "seconds since 1970"
	case strings.HasSuffix(name, "_seconds"):
		return "seconds"
	case strings.HasSuffix(name, "_bytes"):
		return "bytes"
	case strings.HasSuffix(name, "_ratio"):
		return "0 to 1"
	}
	return "number"
}
