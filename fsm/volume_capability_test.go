package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestReadOnlyMode(t *testing.T) {
	for mode := range fsmpb.AccessMode_name {
		want := mode == int32(readOnly) || mode == int32(fsmpb.AccessMode_ACCESS_MODE_MULTI_NODE_READER_ONLY)
		require.Equal(t, want, ReadOnlyMode(fsmpb.AccessMode(mode)), "%d", mode)
	}
}
