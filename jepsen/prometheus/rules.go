package prometheus

import (
	"fmt"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Rule is one alert, as far as it is looked at.
type Rule struct {
	Name string
	For  time.Duration // as it is in the chart
}

// longest is what no alert must hold for longer than, once it is shortened: nobody waits for what takes a day.
const longest = 12 * time.Second

// Shorten writes a copy of a rule file in which each alert must hold for a part of the time only, and twelve seconds at most.
// Nothing else of it differs.
func Shorten(from, to string, by int) ([]Rule, error) {
	text, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert string `yaml:"alert"`
				For   string `yaml:"for"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("read %s: %w", from, err)
	}
	var rules []Rule
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			lasts, err := parseDuration(r.For)
			if err != nil {
				return nil, fmt.Errorf("alert %s: %w", r.Alert, err)
			}
			rules = append(rules, Rule{r.Alert, lasts})
		}
	}
	return rules, os.WriteFile(to, []byte(shortenLines(string(text), by)), 0o600)
}

// shortenLines replaces the values of the lines with for:, and no others.
func shortenLines(text string, by int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		value, found := strings.CutPrefix(strings.TrimSpace(line), "for: ")
		if !found {
			continue
		}
		if lasts, err := parseDuration(value); err == nil {
			lines[i] = line[:strings.Index(line, "for: ")] + fmt.Sprintf("for: %dms", min(lasts/time.Duration(by), longest).Milliseconds())
		}
	}
	return strings.Join(lines, "\n")
}

// parseDuration reads a duration of Prometheus of one unit.
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		hours, err := time.ParseDuration(days + "h")
		return 24 * hours, err
	}
	return time.ParseDuration(text)
}
