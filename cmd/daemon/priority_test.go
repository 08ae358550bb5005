package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryThreadGetsThePriority(t *testing.T) {
	for range 2 {
		require.NoError(t, SetPriority(1)) // a higher nice value is for everybody to take
		tasks, err := filepath.Glob("/proc/self/task/*/stat")
		require.NoError(t, err)
		require.NotEmpty(t, tasks)
		for _, path := range tasks {
			stat, err := os.ReadFile(path)
			if err != nil {
				continue // the thread has ended
			}
			_, after, found := strings.Cut(string(stat), ") ")
			require.True(t, found)
			require.Equal(t, "1", strings.Fields(after)[16], "the 19th field of stat is the nice value")
		}
	}
}
