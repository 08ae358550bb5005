package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Operators, metric labels and events have these words: a new number needs one, and none may change.
func TestEveryNumberHasItsWord(t *testing.T) {
	var words []string
	for n := range uint8(255) {
		for _, word := range []string{
			OperationKind(n).String(), OperationState(n).String(), NodeState(n).String(),
			ReplicaState(n).String(), SnapshotPhase(n).String(), GroupPhase(n).String(),
		} {
			if word != "" {
				words = append(words, word)
			}
		}
	}
	require.Equal(t, []string{
		"create", "running", "reachable", "planned", "cutting", "freezing",
		"delete", "failed", "unreachable", "present", "ready", "cutting",
		"teardown", "cancelled", "lost", "missing", "deleting", "ready",
		"snapshot", "gone", "failed", "aborting",
		"expand", "leaving", "deleting", "modify", "replicate",
	}, words)
	for word, phase := range map[string]Phase{"creating": Creating{}, "ready": Ready{}, "deleting": Deleting{}, "failed": Failed{}, "": nil} {
		require.Equal(t, word, PhaseName(phase))
	}
}

func TestAnOperationIDIsReadAsItIsPrinted(t *testing.T) {
	for text, want := range map[string]OperationID{OperationID(12).String(): 12, "12": 12, "op-0": 0, "op-": 0, "op-x": 0, "": 0} {
		id, err := ParseOperationID(text)
		require.Equal(t, want, id)
		require.Equal(t, want == 0, err != nil, text)
	}
}
