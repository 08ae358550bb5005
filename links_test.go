package holdfast_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	fencePattern   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	spanPattern    = regexp.MustCompile("`[^`\n]*`")
	// anchorless is what GitHub leaves out of a heading's anchor.
	anchorless = regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)
)

// TestLinksLeadSomewhere: each relative link of a page is to a file, and its anchor to a heading there.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, pattern := range []string{"*.md", "docs/*.md", "deploy/*.md", "deploy/chart/*.md"} {
		pages, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, pages, pattern)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			require.Empty(t, brokenLinks(page, string(text)), page)
		}
	}
	require.Equal(t, []string{"gone.md", "README.md#gone", "#gone"}, brokenLinks("README.md",
		"# Here it is, twice\n[a](gone.md) [b](README.md#gone) [c](#gone) [d](#here-it-is-twice) `[e](no-link.md)` [f](https://example.com/gone)\n```sh\n[g](no-link.md)\n```\n"))
}

func brokenLinks(page, text string) (broken []string) {
	for _, match := range linkPattern.FindAllStringSubmatch(prose(text), -1) {
		if link := match[1]; !strings.Contains(link, "://") {
			if err := follow(page, text, link); err != nil {
				broken = append(broken, link)
			}
		}
	}
	return broken
}

// prose is a page without its code.
func prose(text string) string {
	return spanPattern.ReplaceAllString(fencePattern.ReplaceAllString(text, ""), "")
}

func follow(page, text, link string) error {
	file, anchor, _ := strings.Cut(link, "#")
	if file != "" {
		path := filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
		there, err := os.ReadFile(path)
		if info, failed := os.Stat(path); failed == nil && info.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		text = string(there)
	}
	if anchor == "" || anchors(text)[anchor] {
		return nil
	}
	return fmt.Errorf("%s has no heading %s", file, anchor)
}

// anchors are those that GitHub gives the headings of a page.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range headingPattern.FindAllStringSubmatch(fencePattern.ReplaceAllString(text, ""), -1) {
		name := anchorless.ReplaceAllString(strings.ToLower(strings.TrimSpace(match[1])), "")
		found[strings.ReplaceAll(name, " ", "-")] = true
	}
	return found
}
