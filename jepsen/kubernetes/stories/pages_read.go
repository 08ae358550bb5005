package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pageNames are the pages for users, in the order in which a cluster lives: what removes it comes last.
var pageNames = []string{"install", "parameters", "sizing", "immutable-hosts", "troubleshooting", "air-gap", "failures", "upgrades", "uninstall"}

// command is a line of a page that a reader types.
type command struct{ Page, Line string }

// readPages are the commands of the pages in a folder.
func readPages(docs string) (all []command, err error) {
	for _, name := range pageNames {
		text, err := os.ReadFile(filepath.Join(docs, name+".md"))
		if err != nil {
			return nil, err
		}
		for _, line := range blocksOf(string(text), "sh") {
			all = append(all, command{name, line})
		}
	}
	return all, nil
}

// blocksOf are the lines of all blocks of a language, without comments and empty ones.
func blocksOf(text, language string) (lines []string) {
	in := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			in = line == "```"+language
		case in && line != "" && !strings.HasPrefix(line, "#"):
			lines = append(lines, line)
		}
	}
	return lines
}

// firstManifest is the manifest of the page about the install, which it calls first.yaml.
func firstManifest(docs string) (string, error) {
	text, err := os.ReadFile(filepath.Join(docs, "install.md"))
	if err != nil {
		return "", err
	}
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if strings.Contains(block, "name: first") {
			return block, nil
		}
	}
	return "", fmt.Errorf("install.md has no manifest of a first volume")
}
