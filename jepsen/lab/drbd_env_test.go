package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

const (
	drbdVolume = "hf-0190a0e2-7b1c-7e39-8d55-6f3b2a1c0d01"
	drbdSize   = 32 << 20
	// drbdBacking is what executor/drbd says for drbdSize: bitmap, activity log, superblock, and a block so that
	// the last word of the bitmap is not fully used.
	drbdBacking = drbdSize + 4<<10 + 32<<10 + 4<<10 + 4<<10
	drbdGrown   = 48 << 20
	drbdLarger  = drbdGrown + 44<<10
)

// drbdPair drives executor/drbd's own steps in two guests.
type drbdPair struct {
	t        *testing.T
	l        *lab.Lab
	program  string // executor/drbd's tests, in the guests
	protocol int    // of fsmpb.Protocol
}

const protocolA, protocolC = 1, 2

const (
	// flights is how often writes are caught in flight.
	flights = 3
	// drbdNumber is the device's, as stat shows it: major 147, minor 107.
	drbdNumber = "37739"
)

// drbdState is what a step "observe" prints: the fields of executor.ResourceStatus that are
// looked at here.
type drbdState struct {
	InKernel, Primary, Suspended, HasMetadata, JustCreated bool
	Disk, Connection, PeerDisk, SyncPercent                int
	UUID                                                   uint64
	Size, OutOfSync                                        int64
}

// The numbers of fsmpb.DiskState and fsmpb.ConnectionState.
const (
	diskless, inconsistent, consistent, upToDate = 1, 5, 7, 8
	outdated                                     = 6
	standAlone, connecting, connected            = 1, 2, 3
)

func newDRBDPair(t *testing.T) drbdPair {
	l := lab.New(t, lab.Config{Guests: 2, Disks: []int64{200 << 20}})
	program := l.InstallTests(t, "executor/drbd")
	l.MustBoot(t)
	r := drbdPair{t, l, program.Path, protocolC}
	for i := range 2 {
		r.prepare(i+1, drbdBacking)
	}
	return r
}

// prepare makes a guest, also after a crash, what a host with a pool is.
func (r drbdPair) prepare(n int, backing int64) {
	r.exec(n, fmt.Sprintf(`modprobe -a drbd dm-mod; mkdir -p /m
dmsetup create below --table "0 %d linear /dev/ubdc 0" && dmsetup mknodes
setsid env HOLDFAST_DRBD_STEPS=answer HOLDFAST_DRBD_RESOURCE='{}' %s -test.run TestStepsInAGuest -test.timeout 0 >/lab/answer.log 2>&1 </dev/null &
for i in $(seq 600); do /usr/sbin/holdfast fence-peer --self-test 2>/dev/null && exit 0; sleep .1; done; exit 1`, backing/512, r.program))
}

func (r drbdPair) exec(n int, script string) string { return r.l.Guest(n).MustExec(r.t, script) }

// steps does the steps and returns the result of each.
func (r drbdPair) steps(n int, steps ...string) []string {
	resource := fmt.Sprintf(`{"Volume":%q,"Protocol":%d,"Minor":107,"Port":7800,"BackingPath":"/dev/mapper/below","Node":"node-%d","Address":%q,"PeerNode":"node-%d","PeerAddress":%q,"Secret":"00112233445566778899aabbccddeeff"}`,
		drbdVolume, r.protocol, n, r.l.IP(lab.Replication, n), 3-n, r.l.IP(lab.Replication, 3-n))
	out := r.exec(n, "GOMEMLIMIT=60MiB HOLDFAST_DRBD_STEPS='"+strings.Join(steps, ",")+"' HOLDFAST_DRBD_RESOURCE='"+resource+"' "+r.program+" -test.v -test.run TestStepsInAGuest 2>&1")
	var results []string
	for _, m := range regexp.MustCompile(`(?m)^STEP [^:]*: (.*) \(\d+ ms\)$`).FindAllStringSubmatch(out, -1) {
		results = append(results, strings.TrimSpace(m[1]))
	}
	r.t.Logf("n%d: %s", n, strings.ReplaceAll(strings.TrimSpace(out), "\n", "\n    "))
	require.Len(r.t, results, len(steps), out)
	return results
}

// mustSteps does steps that must succeed. It repeats them from one on that another command kept from being done.
func (r drbdPair) mustSteps(n int, steps ...string) {
	r.t.Helper()
	for deadline := time.Now().Add(stepPatience); len(steps) > 0; {
		done := 0
		for _, result := range r.steps(n, steps...) {
			if strings.HasPrefix(result, "busy") && time.Now().Before(deadline) {
				break
			}
			require.Equal(r.t, "done", result, steps[done])
			done++
		}
		steps = steps[done:]
	}
}

// persist repeats a step that the kernels need time for until it is done, as executor does.
func (r drbdPair) persist(n int, step string) {
	r.t.Helper()
	lab.Await(r.t, stepPatience, step, func() (bool, string) {
		result := r.steps(n, step)[0]
		return result == "done", result
	})
}

// stepPatience is for how long a step is repeated.
const stepPatience = 4 * time.Minute

// mount mounts the volume, without what this guest has in its cache of a time when its peer wrote.
func (r drbdPair) mount(n int) {
	r.t.Helper()
	r.exec(n, "blockdev --flushbufs /dev/drbd107 && mount /dev/drbd107 /m")
}

func (r drbdPair) mustRefuse(n int, step, why string) {
	r.t.Helper()
	result := r.steps(n, step)[0]
	require.Contains(r.t, result, "refused", step)
	require.Contains(r.t, result, why, step)
}

func (r drbdPair) observe(n int) drbdState {
	r.t.Helper()
	result := r.steps(n, "observe")[0]
	text, ok := strings.CutPrefix(result, "done ")
	require.True(r.t, ok, result)
	var m drbdState
	require.NoError(r.t, json.Unmarshal([]byte(text), &m))
	return m
}

// until waits until a guest's replica is seen so.
func (r drbdPair) until(n int, what string, ok func(drbdState) bool) drbdState {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 4*time.Minute)
	defer cancel()
	for {
		before := r.kernelState(n)
		if m := r.observe(n); ok(m) {
			return m
		}
		if ctx.Err() != nil {
			require.NoError(r.t, ctx.Err(), "n%d was never %s:\n%s", n, what, r.exec(n, "cat /proc/drbd; dmesg | tail -20"))
		}
		r.awaitChange(n, before)
	}
}

// maxQuiet bounds the time between two observations, for what the kernel's state does not show.
const maxQuiet = time.Second

// awaitChange waits until the kernel's state differs, because an observation costs many times what reading a
// file does: it starts programs in the guest.
func (r drbdPair) awaitChange(n int, before string) {
	r.t.Helper()
	for end := time.Now().Add(maxQuiet); time.Now().Before(end) && r.kernelState(n) == before; {
		time.Sleep(50 * time.Millisecond)
	}
}

var stateLine = regexp.MustCompile(`(?m)^ *\d+: cs:.*$`)

// kernelState is the state of connection, roles and disks, without what counts their work.
func (r drbdPair) kernelState(n int) string {
	r.t.Helper()
	text, err := r.l.Guest(n).Get(r.t.Context(), "/proc/drbd")
	require.NoError(r.t, err)
	return stateLine.FindString(string(text))
}

func (r drbdPair) verdict(n int, verdict string) {
	if verdict == "" {
		r.exec(n, "rm -f /run/verdict")
		return
	}
	r.exec(n, "echo "+verdict+" >/run/v && mv /run/v /run/verdict")
}

func isConnectedUpToDate(m drbdState) bool {
	return m.Connection == connected && m.Disk == upToDate && m.PeerDisk == upToDate
}

func isSuspended(m drbdState) bool { return m.Suspended }
