package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryCommandHasARow(t *testing.T) {
	for i := range oneof.Fields().Len() {
		require.Contains(t, commands, oneof.Fields().Get(i).Message().FullName())
	}
	require.Len(t, commands, oneof.Fields().Len())
}

func TestAVolumeLivesFromCreateToDelete(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.staged(1, "n1", 1)
}
