package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
)

func TestS9_WhoWouldSeeAWriteEndIsKilled(t *testing.T) {
	writes := executor.Process{PID: 7}
	require.Empty(t, WritersToKill(nil))
	require.Empty(t, WritersToKill([]executor.Process{{PID: 8, Own: true}, {PID: 9, Dying: true}}))
	require.Equal(t, []executor.Process{writes}, WritersToKill([]executor.Process{{PID: 8, Own: true}, writes, {PID: 9, Dying: true}}))
}
