package mount

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAProbeOfADeviceThatHangsSaysThatItDoes: a pipe without a writer is opened as a device that is suspended is read, by a call that nothing
// ends. Whoever parks the volume learns when it has ended.
func TestAProbeOfADeviceThatHangsSaysThatItDoes(t *testing.T) {
	device := filepath.Join(t.TempDir(), "device")
	require.NoError(t, unix.Mkfifo(device, 0o600))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx    context.Context
		within time.Duration
		says   string
	}{
		"it takes too long":     {t.Context(), time.Millisecond, "does not answer"},
		"nobody waits any more": {canceled, time.Hour, "has not answered yet"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&Mounter{answerTimeout: tc.within}).Probe(tc.ctx, device, 1)
			require.ErrorContains(t, err, tc.says)
			var hangs *hangError
			require.ErrorAs(t, err, &hangs)
			select {
			case <-hangs.Stuck():
				require.Fail(t, "the call has not ended")
			default:
			}
			writer, err := os.OpenFile(device, os.O_WRONLY, 0)
			require.NoError(t, err)
			<-hangs.Stuck()
			require.NoError(t, writer.Close())
		})
	}
}

// TestALateAnswerIsDiscardedBeforeTheCallHasEnded: a mount that the kernel makes after nobody waits for it is gone when the volume is tried
// again.
func TestALateAnswerIsDiscardedBeforeTheCallHasEnded(t *testing.T) {
	release, discarded := make(chan int), make(chan int, 1)
	_, err := callDevice(t.Context(), time.Millisecond, func() (int, error) { return <-release, nil }, func(late int) { discarded <- late })
	var hangs *hangError
	require.ErrorAs(t, err, &hangs)
	release <- 7
	<-hangs.Stuck()
	select {
	case late := <-discarded:
		require.Equal(t, 7, late)
	default:
		require.Fail(t, "the call counts as ended with its answer kept")
	}
}

// TestNothingIsDiscardedOfACallThatFailsLate, nor of one that is answered in time.
func TestNothingIsDiscardedOfACallThatFailsLate(t *testing.T) {
	release := make(chan error)
	never := func(int) { panic("there is nothing to discard") }
	_, err := callDevice(t.Context(), time.Millisecond, func() (int, error) { return 0, <-release }, never)
	var hangs *hangError
	require.ErrorAs(t, err, &hangs)
	release <- os.ErrInvalid
	<-hangs.Stuck()
	answer, err := callDevice(t.Context(), time.Hour, func() (int, error) { return 7, nil }, never)
	require.NoError(t, err)
	require.Equal(t, 7, answer)
}
