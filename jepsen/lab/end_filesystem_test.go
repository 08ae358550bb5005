package lab_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// ringWriter is the program jepsen/lab/writer in one guest.
type ringWriter struct {
	t     *testing.T
	guest *lab.Guest
	from  uint64
}

func newRingWriter(t *testing.T, g *lab.Guest) *ringWriter {
	t.Helper()
	require.NoError(t, lab.Build(t.Context(), filepath.Join(g.Shared(), "writer"), "jepsen/lab/writer"))
	return &ringWriter{t: t, guest: g, from: 1}
}

// start writes a ring, each block synced before the next.
func (s *ringWriter) start(path string) {
	s.t.Helper()
	s.guest.MustExec(s.t, fmt.Sprintf("rm -f /lab/acks; setsid /lab/writer write --path %s --acks /lab/acks --from %d --blocks 1000000 >/dev/null 2>&1 </dev/null &", path, s.from))
	require.Eventually(s.t, func() bool { return s.acked().Number > s.from+20 }, 2*time.Minute, 10*time.Millisecond, "it writes")
}

type acked struct {
	Number uint64 `json:"number"`
	Error  string `json:"error"`
}

func (s *ringWriter) acked() (a acked) {
	text, err := os.ReadFile(filepath.Join(s.guest.Shared(), "acks"))
	if err == nil {
		_ = json.Unmarshal(text, &a) // the first may not be there yet
	}
	return a
}

// awaitBlocked waits until the writer is blocked on a device that does not answer, and returns what was acknowledged
// until then. A stalled guest does not count: its kernel must show the writer sleeping in it before and after half a
// second.
func (s *ringWriter) awaitBlocked() uint64 {
	s.t.Helper()
	sleeps := func() bool {
		_, code, err := s.guest.Exec(s.t.Context(), "grep -q '^State:.D' /proc/$(pgrep -x writer)/task/*/status")
		require.NoError(s.t, err)
		return code == 0
	}
	var last uint64
	lab.Await(s.t, 2*time.Minute, "the writer to stand still", func() (bool, string) {
		last = s.acked().Number
		asleep := sleeps()
		s.guest.MustExec(s.t, "sleep .5")
		asleep = sleeps() && asleep
		now := s.acked()
		require.Empty(s.t, now.Error)
		return asleep && now.Number == last, fmt.Sprintf("asleep: %t, block %d and then %d", asleep, last, now.Number)
	})
	s.from = last + 1
	return last
}

// awaitFailure waits until it ended in an error.
func (s *ringWriter) awaitFailure() acked {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.acked().Error != "" }, 2*time.Minute, 10*time.Millisecond, "it gets an error")
	require.Regexp(s.t, "input/output error|read-only file system", s.acked().Error)
	return s.acked()
}

// A filesystem that is shut down while its device does not answer acknowledges nothing that is begun later, although the device
// completes all requests in the end. What waited for the device at that time may be acknowledged: ext4 looks at the state of its
// journal only where a sync waits for a transaction, and a block that is overwritten within one tick of the kernel's clock needs none. So
// the disk is forced off too before blocked I/O goes on. The long form has it five times for each filesystem, since the writer may be
// anywhere.
func TestS9_AFilesystemThatIsShutDownSyncsNoMore(t *testing.T) {
	l := lab.New(t, lab.Config{Guests: 1, Disks: []int64{400 << 20}})
	l.MustBoot(t)
	g := l.Guest(1)
	s := newRingWriter(t, g)
	g.MustExec(t, `modprobe -a dm-mod xfs; mkdir -p /m; dmsetup create slow --table "0 $(blockdev --getsz /dev/ubdc) linear /dev/ubdc 0"; dmsetup mknodes`)
	times := 2
	if longForm {
		times = 5
	}
	for _, mkfs := range []string{"mkfs.ext4 -q -F", "mkfs.xfs -q -f"} {
		t.Run(strings.Fields(mkfs)[0], func(t *testing.T) {
			s.t = t
			for range times {
				s.from = 1
				g.MustExec(t, mkfs+" /dev/mapper/slow && mount /dev/mapper/slow /m")
				device := strings.TrimSpace(g.MustExec(t, "stat -c %d /m"))
				s.start("/m/ring")
				g.MustExec(t, "dmsetup suspend --noflush --nolockfs slow")
				last := s.awaitBlocked()
				require.Equal(t, "shut down", strings.TrimSpace(g.MustExec(t, endFilesystem(device))))
				require.Equal(t, "shut down", strings.TrimSpace(g.MustExec(t, endFilesystem(device))), "asked twice")
				g.MustExec(t, "dmsetup resume slow")
				require.LessOrEqual(t, s.awaitFailure().Number, last+1, "begun and acknowledged after it was shut down")
				g.MustExec(t, "umount /m")
			}
		})
	}
	out, code, err := g.Exec(t.Context(), "/usr/sbin/holdfast end-filesystem /m 1")
	require.NoError(t, err)
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "another filesystem is mounted there")
}

// endFilesystem runs what a node runs for a former primary's filesystem, which may have to wait for the device, and
// prints its result.
func endFilesystem(device string) string {
	return "rm -f /run/said; setsid /usr/sbin/holdfast end-filesystem /m " + device + " >/run/said 2>/dev/null </dev/null & for i in $(seq 1200); do [ -s /run/said ] && break; sleep .05; done; cat /run/said"
}
