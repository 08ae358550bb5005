package isolated

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestAnErrorAboutAnEndedProcessSaysSo: also while nobody has asked how it ended.
func TestAnErrorAboutAnEndedProcessSaysSo(t *testing.T) {
	problem := errors.New("a problem")
	require.NotErrorIs(t, ofProcess(os.Getpid(), problem), ErrNoProcess)
	cmd := exec.Command("true")
	require.NoError(t, cmd.Start())
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "the process to have ended", func() (bool, error) {
		err := ofProcess(cmd.Process.Pid, problem)
		return errors.Is(err, ErrNoProcess) && errors.Is(err, problem), err
	}))
	require.NoError(t, cmd.Wait())
	require.ErrorIs(t, ofProcess(cmd.Process.Pid, problem), ErrNoProcess)
}
