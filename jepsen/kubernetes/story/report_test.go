package story

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAReportHasARowForEachStory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, Write(path, "Title", []Result{
		{Story: Story{Name: "a", Tells: "one | two"}, Times: []Time{{"first", 1500 * time.Millisecond}}, Notes: []string{"a note"}},
		{Story: Story{Name: "b", Tells: "c"}, Failed: errors.New("line\nother")},
		{Story: Story{Name: "d", Tells: "e"}, Skipped: errors.New("nothing to tell")},
	}))
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(page), `| a | one \| two | held | first 1.50; a note |`+"\n")
	require.Contains(t, string(page), "| b | c | **failed**: line other |  |\n")
	require.Contains(t, string(page), "| d | e | not told: nothing to tell |  |\n")
}

func TestARunWithoutAStoryFails(t *testing.T) {
	stories := []Story{{Name: "a"}, {Name: "b"}}
	err := Run(context.Background(), nil, Settings{}, stories, regexp.MustCompile("^c$"), nil)
	require.ErrorContains(t, err, "no story has such a name")
	require.ErrorContains(t, outcome([]Result{{Failed: errors.New("x")}, {}}), "1 of 2 stories failed")
	require.NoError(t, outcome([]Result{{}}))
	require.Error(t, outcome([]Result{{Skipped: errors.New("x")}}), "a run that told nothing proves nothing")
}
