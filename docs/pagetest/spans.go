package pagetest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var span = regexp.MustCompile("`(kubectl [^`]+)`")

// Spans are the calls of kubectl in the text of one section of a page, each as a block: where a table has them, no block can.
func Spans(path, title string) (all []Block, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	inside := false
	for i, line := range strings.Split(string(text), "\n") {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			inside = heading == title
		}
		if !inside {
			continue
		}
		for _, match := range span.FindAllStringSubmatch(line, -1) {
			all = append(all, Block{Page: filepath.Base(path), Line: i + 1, Language: "sh", Text: match[1] + "\n"})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no section %q with calls of kubectl", path, title)
	}
	return all, nil
}
