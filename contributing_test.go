package holdfast_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/cli"
)

var (
	quotedPattern = regexp.MustCompile("`([^`\n]+)`")
	// pathPattern leaves out names of Kubernetes, which begin with a domain.
	pathPattern = regexp.MustCompile(`^([\w-]+|[a-z][\w-]*/[\w./-]*)(\.go|\.md|\.proto|/[a-z]\w*)$`)
)

// TestPagesNameWhatThereIs: the pages name no file, folder or command that is gone.
func TestPagesNameWhatThereIs(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, name := range append(pages, "CONTRIBUTING.md", "README.md", "deploy/OPERATIONS.md", "deploy/DISASTER-RECOVERY.md") {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Empty(t, missingNames(string(page)), name)
	}
	require.Equal(t, []string{"fsm/gone.go", "holdfast gone", "holdfast volumes gone"},
		missingNames("`fsm/gone.go`, `fsm/doc.go`, `holdfast gone`, `holdfast volumes gone --dir d`, `holdfast volumes kept remove`, `make quick`"))
}

// missingNames are the paths and the commands in backquotes that there are none of.
func missingNames(page string) (missing []string) {
	for _, match := range quotedPattern.FindAllStringSubmatch(page, -1) {
		name := match[1]
		if command, ok := strings.CutPrefix(name, "holdfast "); ok {
			if !isCommand(strings.Fields(command)) {
				missing = append(missing, "holdfast "+strings.Split(command, " --")[0])
			}
		} else if pathPattern.MatchString(name) {
			if _, err := os.Stat(filepath.FromSlash(name)); err != nil {
				missing = append(missing, name)
			}
		}
	}
	return missing
}

// isCommand tells whether the words before arguments and flags name a command: arguments are
// in capitals or have a digit.
func isCommand(words []string) bool {
	for i, word := range words {
		if strings.HasPrefix(word, "-") || strings.ContainsAny(word, "<0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			words = words[:i]
			break
		}
	}
	found, _, err := cli.Root().Find(words)
	return err == nil && (len(words) == 0 || found.Name() == words[len(words)-1])
}
