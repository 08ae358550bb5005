package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// section are the blocks of one section of a page: what is indented by four spaces there, each without them.
type section []string

// readSection reads the section of a heading of the chart's page.
func readSection(chart, heading string) (section, error) {
	text, err := os.ReadFile(filepath.Join(chart, "README.md"))
	if err != nil {
		return nil, err
	}
	_, rest, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		return nil, fmt.Errorf("the chart's page has no section %q", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return indented(rest), nil
}

// indented are the blocks of a text.
func indented(text string) (blocks section) {
	in := false
	for line := range strings.Lines(text) {
		line, code := strings.CutPrefix(line, "    ")
		switch {
		case code && in:
			blocks[len(blocks)-1] += line
		case code:
			blocks = append(blocks, line)
		}
		in = code
	}
	return blocks
}

// with is the one block that has these words.
func (s section) with(words string) (string, error) {
	found := ""
	for _, block := range s {
		if strings.Contains(block, words) {
			if found != "" {
				return "", fmt.Errorf("two blocks of the section have %q", words)
			}
			found = block
		}
	}
	if found == "" {
		return "", fmt.Errorf("no block of the section has %q", words)
	}
	return found, nil
}
