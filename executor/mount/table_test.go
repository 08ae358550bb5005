package mount

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever may mount an overlay can make a line of the host's table longer than what parses it takes.
func TestATableWithALongLineIsRead(t *testing.T) {
	layers := strings.Repeat("lowerdir+=/a/layer,", 8000)
	table, err := parseTable([]byte("22 27 0:21 / /proc rw,relatime - proc proc rw\n" +
		"30 27 0:40 / /merged rw,relatime shared:7 - overlay overlay rw," + layers + "upperdir=/up,workdir=/work\n" +
		"31 27 0:41 / /after rw - tmpfs tmpfs rw\n"))
	require.NoError(t, err)
	require.Len(t, table, 3)
	require.Equal(t, "rw,upperdir=/up,workdir=/work", table[1].VFSOptions)
	require.Equal(t, "/after", table[2].Mountpoint)
	long, err := parseTable([]byte("30 27 0:40 / /merged rw - overlay overlay rw," + layers + "lowerdir=/last"))
	require.NoError(t, err)
	require.Equal(t, "rw", long[0].VFSOptions)
}
