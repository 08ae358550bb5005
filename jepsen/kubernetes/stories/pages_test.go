package stories

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs is the folder of the pages, seen from here.
const docs = "../../../docs"

func TestThePagesAreRead(t *testing.T) {
	require.Equal(t, []string{"a", "b c"}, blocksOf("```sh\na\n# a comment\n\n```\n```yaml\nx: y\n```\n   ```sh\n   b c\n   ```\nd\n", "sh"))
	all, err := readPages(docs)
	require.NoError(t, err)
	require.Greater(t, len(all), 100)
	manifest, err := firstManifest(docs)
	require.NoError(t, err)
	require.Contains(t, manifest, "kind: Pod")
}

// TestWhatIsSaidOfCommandsIsOfCommands: a page that changes leaves no entry behind that excuses another command.
func TestWhatIsSaidOfCommandsIsOfCommands(t *testing.T) {
	all, err := readPages(docs)
	require.NoError(t, err)
	known := slices.Concat(slices.Collect(maps.Keys(toldElsewhere)), slices.Collect(maps.Keys(mayRefuse)), slices.Collect(maps.Keys(beforehand)))
	for _, begin := range known {
		require.True(t, slices.ContainsFunc(all, func(c command) bool { return strings.HasPrefix(c.Line, begin) }), "no page has a command that begins with %q", begin)
	}
	told := map[string]bool{}
	for _, s := range All() {
		told[s.Name] = true
	}
	for begin, why := range toldElsewhere {
		if name, ok := strings.CutPrefix(why, "the story "); ok {
			name, _, _ = strings.Cut(name, " ")
			name, _, _ = strings.Cut(name, ":")
			require.True(t, told[name], "%q is said to be told by %q, which is no story", begin, name)
		}
	}
}
