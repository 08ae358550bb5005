package story

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Write writes the table of stories as Markdown.
func Write(path, title string, results []Result) error {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\n%s, times in seconds.\n\n| story | what is done and seen | result | times |\n|---|---|---|---|\n",
		title, time.Now().UTC().Format(time.DateTime+" UTC"))
	for _, r := range results {
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", r.Story.Name, cell(r.Story.Tells), cell(r.verdict()), cell(r.times()))
	}
	return os.WriteFile(path, []byte(out.String()), 0o644)
}

func (r Result) verdict() string {
	switch {
	case r.Skipped != nil:
		return "not told: " + r.Skipped.Error()
	case r.Failed != nil:
		return "**failed**: " + r.Failed.Error()
	}
	return "held"
}

func (r Result) times() string {
	var parts []string
	for _, t := range r.Times {
		parts = append(parts, fmt.Sprintf("%s %.2f", t.What, t.Took.Seconds()))
	}
	return strings.Join(append(parts, r.Notes...), "; ")
}

// cell is text that stays within one cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text)
}
