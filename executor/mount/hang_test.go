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
