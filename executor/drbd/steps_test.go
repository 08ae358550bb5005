package drbd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// fakeTools answers as the tools did in guests and keeps what they were called with.
type fakeTools struct {
	t        *testing.T
	calls    []string
	failures map[string]error           // by the beginning of a call
	giOutput string                     // what get-gi says
	listHook func(events string) string // before what all resources are is told
	// suspended replaces the reasons for which the resource's I/O is suspended.
	suspended string
}

func (f *fakeTools) LookPath(tool string) (string, error) { return "/usr/sbin/" + tool, nil }

func (f *fakeTools) Run(_ context.Context, c run.Command) ([]byte, error) {
	call := c.Tool + " " + strings.Join(c.Args, " ")
	switch {
	case call == "drbdsetup events2":
		_, err := c.Stdout.Write([]byte(readTestdata(f.t, "connected_primary.events")))
		return nil, err // the stream ends
	case call == "drbdsetup events2 --now" && f.listHook != nil:
		return []byte(f.listHook(readTestdata(f.t, "connected_primary.events"))), nil
	case strings.HasPrefix(call, "drbdsetup events2 --now"):
		events := readTestdata(f.t, "connected_primary.events")
		if f.suspended != "" {
			events = strings.ReplaceAll(events, " suspended:no", " suspended:"+f.suspended)
		}
		return []byte(events), nil
	case strings.Contains(call, "get-gi"):
		return []byte(f.giOutput), nil
	}
	f.calls = append(f.calls, strings.ReplaceAll(call, " "+string(testVolume), ""))
	for prefix, err := range f.failures {
		if strings.HasPrefix(call, prefix) {
			return nil, err
		}
	}
	return nil, nil
}

const (
	justCreatedGI = "0000000000000004:0000000000000000:0000000000000000:0000000000000000:0:0:0:0:0:0:0\n"
	initializedGI = "82CB38916AD3EDA2:0000000000000000:0000000000000000:0000000000000000:1:1:0:1:0:0:0\n"
)

// newReplicatorInState is a host whose kernel says what was captured under a name.
func newReplicatorInState(t *testing.T, state string) (*Replicator, *fakeTools) {
	t.Helper()
	r := newTestReplicator(t, "8.4.11")
	require.NoError(t, r.Configure(t.Context(), testResource()))
	text := readTestdata(t, "unconfigured.proc")
	if state != "" {
		text = readTestdata(t, state+".proc")
	}
	require.NoError(t, os.WriteFile(filepath.Join(r.config.procDir, "drbd"), []byte(text), 0o600))
	size := filepath.Join(r.config.sysDir, "block", "drbd107", "size")
	require.NoError(t, os.MkdirAll(filepath.Dir(size), 0o755))
	require.NoError(t, os.WriteFile(size, []byte("98304\n"), 0o600))
	fake := r.config.runner.(*fakeTools)
	fake.giOutput = initializedGI
	return r, fake
}

func TestEachStepRunsItsCommands(t *testing.T) {
	for name, tc := range map[string]struct {
		state string
		do    func(*Replicator, context.Context) error
		want  []string
		why   fsm.Reason
	}{
		"attach makes all known first":                {"", attach, []string{"drbdadm new-resource", "drbdadm new-minor", "drbdadm attach"}, 0},
		"attached already":                            {"standalone_uptodate", attach, nil, 0},
		"attach again after EIO":                      {"secondary_diskless", attach, []string{"drbdadm attach"}, 0},
		"connect":                                     {"standalone_uptodate", connect(false), []string{"drbdadm connect"}, 0},
		"connected already":                           {"connected_secondary", connect(false), nil, 0},
		"connecting already":                          {"wfc_secondary", connect(false), nil, 0},
		"TestS9: a loser connects with discard":       {"outdated_standalone", connect(true), []string{"drbdadm connect --discard-my-data"}, 0},
		"TestS9: discard needs a new connection":      {"wfc_secondary", connect(true), []string{"drbdadm disconnect --force", "drbdadm connect --discard-my-data"}, 0},
		"TestS9: a primary discards nothing":          {"wfc_suspended", connect(true), nil, fsm.Precondition},
		"TestS8: disconnect is with force":            {"connected_secondary", disconnect, []string{"drbdadm disconnect --force"}, 0},
		"disconnected already":                        {"standalone_uptodate", disconnect, nil, 0},
		"TestS8: down of a primary is refused":        {"primary_alone", down, nil, fsm.Busy},
		"down of one that stands alone":               {"standalone_uptodate", down, []string{"drbdsetup down"}, 0},
		"set primary":                                 {"connected_secondary", primary(false), []string{"drbdadm primary"}, 0},
		"set primary by a recorded decision":          {"wfc_secondary", primary(true), []string{"drbdadm primary --force"}, 0},
		"primary already":                             {"connected_primary", primary(true), nil, 0},
		"set secondary":                               {"connected_primary", secondary, []string{"drbdadm secondary"}, 0},
		"secondary already":                           {"connected_secondary", secondary, nil, 0},
		"resume":                                      {"suspended", resume, []string{"drbdadm resume-io"}, 0},
		"S45: suspend":                                {"primary_alone", suspend, []string{"drbdadm suspend-io"}, 0},
		"S45: also what waits for its verdict":        {"suspended", suspend, []string{"drbdadm suspend-io"}, 0},
		"S45: a secondary has no writers":             {"connected_secondary", suspend, nil, fsm.Precondition},
		"nothing is frozen":                           {"primary_alone", resume, nil, 0},
		"invalidate":                                  {"connected_secondary", invalidate, []string{"drbdadm invalidate"}, 0},
		"invalidated already":                         {"sync_target", invalidate, nil, 0},
		"an interrupted target doubts all it has":     {"torn_target", invalidate, []string{"drbdadm invalidate"}, 0},
		"it does already":                             {"marked_target", invalidate, nil, 0},
		"one that was whole doubts nothing alone":     {"consistent_standalone", invalidate, nil, fsm.Precondition},
		"the only content is not given up":            {"wfc_secondary", invalidate, nil, fsm.Precondition},
		"S127: not while the peer has less":           {"sync_source", invalidate, nil, fsm.Precondition},
		"verify":                                      {"connected_secondary", verify, []string{"drbdadm verify"}, 0},
		"verify waits for a resync":                   {"sync_source", verify, nil, fsm.Busy},
		"a second birth is refused":                   {"primary_alone", newUUID, nil, 0},
		"resize needs a primary":                      {"connected_secondary", resize, nil, fsm.Precondition},
		"resize needs the peer":                       {"primary_alone", resize, nil, fsm.Precondition},
		"resize of the only replica":                  {"primary_alone", resizeAlone, []string{"drbdadm -- --assume-peer-has-space --size=2097160s resize"}, fsm.Precondition},
		"resize of the only replica needs a primary":  {"standalone_uptodate", resizeAlone, nil, fsm.Precondition},
		"what has a peer grows with it":               {"connected_primary", resizeAlone, nil, fsm.Precondition},
		"resize that had no effect is no success":     {"connected_primary", resize, []string{"drbdadm resize"}, fsm.Precondition},
		"TestS9: detach with force":                   {"suspended", detach(true), []string{"drbdadm detach --force"}, 0},
		"detached already":                            {"loser_detached", detach(true), nil, 0},
		"forget waits for down":                       {"standalone_uptodate", forget, nil, fsm.Busy},
		"metadata of an attached disk stay":           {"standalone_uptodate", createMetadata, nil, 0},
		"metadata that are there stay":                {"", createMetadata, nil, 0},
		"adjust does not attach, connect or set role": {"connected_primary", adjust, []string{"drbdadm disk-options", "drbdadm net-options"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				r, fake := newReplicatorInState(t, tc.state)
				err := tc.do(r, t.Context())
				var refused *fsm.Rejection
				if errors.As(err, &refused) {
					require.Equal(t, tc.why, refused.Reason, refused.Message)
				} else {
					require.NoError(t, err)
					require.Zero(t, tc.why)
				}
				require.Equal(t, tc.want, fake.calls)
			}
		})
	}
}

func disconnect(r *Replicator, ctx context.Context) error { return r.Disconnect(ctx, testVolume) }

func attach(r *Replicator, ctx context.Context) error     { return r.Attach(ctx, testVolume) }
func down(r *Replicator, ctx context.Context) error       { return r.Down(ctx, testVolume) }
func secondary(r *Replicator, ctx context.Context) error  { return r.SetSecondary(ctx, testVolume) }
func suspend(r *Replicator, ctx context.Context) error    { return r.SuspendIO(ctx, testVolume) }
func resume(r *Replicator, ctx context.Context) error     { return r.ResumeIO(ctx, testVolume) }
func invalidate(r *Replicator, ctx context.Context) error { return r.Invalidate(ctx, testVolume) }
func verify(r *Replicator, ctx context.Context) error     { return r.Verify(ctx, testVolume) }
func newUUID(r *Replicator, ctx context.Context) error    { return r.NewUUID(ctx, testVolume) }
func forget(r *Replicator, ctx context.Context) error     { return r.RemoveConfig(ctx, testVolume) }
func adjust(r *Replicator, ctx context.Context) error     { return r.Adjust(ctx, testVolume) }
func resize(r *Replicator, ctx context.Context) error     { return r.Resize(ctx, testVolume, 1<<30, false) }
func resizeAlone(r *Replicator, ctx context.Context) error {
	return r.Resize(ctx, testVolume, 1<<30, true)
}
func createMetadata(r *Replicator, ctx context.Context) error {
	return r.CreateMetadata(ctx, testVolume)
}

func connect(discard bool) func(*Replicator, context.Context) error {
	return func(r *Replicator, ctx context.Context) error { return r.Connect(ctx, testVolume, discard) }
}

func detach(force bool) func(*Replicator, context.Context) error {
	return func(r *Replicator, ctx context.Context) error { return r.Detach(ctx, testVolume, force) }
}

func primary(force bool) func(*Replicator, context.Context) error {
	return func(r *Replicator, ctx context.Context) error { return r.SetPrimary(ctx, testVolume, force) }
}

// The texts are what the tools printed in guests.
func TestEveryKernelErrorHasItsReason(t *testing.T) {
	for text, tc := range map[string]struct {
		code int
		want fsm.Reason
	}{
		"107: State change failed: (-12) Device is held open by someone Command 'drbdsetup-84 secondary 107' terminated with exit code 11":                                                                                    {11, fsm.Busy},
		"107: State change failed: (-1) Multiple primaries not allowed by config Command 'drbdsetup-84 primary 107' terminated with exit code 11":                                                                             {11, fsm.InUse},
		"107: State change failed: (-7) Refusing to be Primary while peer is not outdated Command 'drbdsetup-84 primary 107' terminated with exit code 11":                                                                    {11, fsm.Precondition},
		"107: State change failed: (-8) Can not start OV/resync since it is already active Command 'drbdsetup-84 verify 107' terminated with exit code 11":                                                                    {11, fsm.Busy},
		"107: State change failed: (-2) Need access to UpToDate data Command 'drbdsetup-84 primary 107' terminated with exit code 17":                                                                                         {17, fsm.Precondition},
		"107: Failure: (130) Resize not allowed during resync. Command 'drbdsetup-84 resize 107' terminated with exit code 10":                                                                                                {10, fsm.Busy},
		"107: Failure: (127) Device minor not allocated additional info from kernel: unknown minor Command 'drbdsetup-84 secondary 107' terminated with exit code 10":                                                         {10, fsm.Precondition},
		"??: Failure: (162) Invalid configuration request additional info from kernel: unknown connection Command 'drbdsetup-84 disconnect ipv4:10.99.120.2:7800 ipv4:10.99.120.1:7800 --force' terminated with exit code 10": {10, fsm.Precondition},
	} {
		r, fake := newReplicatorInState(t, "connected_secondary")
		fake.failures = map[string]error{"drbdadm": &run.Error{Tool: "drbdadm", Code: tc.code, Output: text}}
		var refused *fsm.Rejection
		require.ErrorAs(t, r.SetPrimary(t.Context(), testVolume, false), &refused, text)
		require.Equal(t, tc.want, refused.Reason, text)
	}
}

func TestNoErrorHoldsTheSecret(t *testing.T) {
	const secret = "0123456789abcdef"
	for _, output := range []string{
		"hf: Failure: (999) What. Command 'drbdsetup-84 connect hf --shared-secret=" + secret + " --ping-int=2' terminated with exit code 10",
		secret + " --verify-alg=crc32c --ping-int=2' terminated with exit code 10",
		`near: shared-secret "` + secret + `";`,
	} {
		r, fake := newReplicatorInState(t, "standalone_uptodate")
		fake.failures = map[string]error{"drbdadm": &run.Error{Tool: "drbdadm", Code: 10, Output: output}}
		err := r.Connect(t.Context(), testVolume, false)
		require.Error(t, err)
		require.NotContains(t, err.Error(), secret)
		var raw *run.Error
		require.False(t, errors.As(err, &raw), "nor does an error inside")
	}
}

func TestNoCommandIsStartedWhileAnotherRunsOrHangs(t *testing.T) {
	r, fake := newReplicatorInState(t, "connected_secondary")
	require.NoError(t, r.steps.slots.claim(testVolume, "test"))
	for range 2 {
		require.ErrorIs(t, r.SetPrimary(t.Context(), testVolume, false), executor.ErrReplicatorBusy)
		require.ErrorIs(t, r.Down(t.Context(), testVolume), executor.ErrReplicatorBusy)
	}
	require.Empty(t, fake.calls)
	(&step{runner: r.steps, id: testVolume}).end()
	exited := make(chan struct{})
	r.steps.slots.markStuck(testVolume, exited) // a killed command that waits for a handler
	require.ErrorIs(t, r.Disconnect(t.Context(), testVolume), executor.ErrReplicatorBusy)
	close(exited)
	require.NoError(t, r.Disconnect(t.Context(), testVolume))
	fake.failures = map[string]error{"drbdadm": &run.Error{Tool: "drbdadm", Code: 20, Output: "lock on /var/lock/drbd-147-107 currently held by pid:908"}}
	require.ErrorIs(t, r.SetPrimary(t.Context(), testVolume, false), executor.ErrReplicatorBusy)
}

func TestObserveOfCapturedStates(t *testing.T) {
	r, _ := newReplicatorInState(t, "connected_secondary")
	for range 2 {
		m, err := r.Observe(t.Context(), testVolume, 107, "/dev/vg/hf-1")
		require.NoError(t, err)
		require.Equal(t, executor.ResourceStatus{
			HasConfig: true, InKernel: true, PeerRole: "Primary", Disk: dUpToDate, Connection: cConnected, PeerDisk: dUpToDate,
			HasMetadata: true, UUID: 0x82CB38916AD3EDA2, Size: 48 << 20, Path: "/dev/drbd107", Number: 147<<8 | 107, SyncPercent: -1, Transferred: 76290048,
		}, m)
	}
	r, fake := newReplicatorInState(t, "")
	fake.giOutput = justCreatedGI
	m, err := r.Observe(t.Context(), testVolume, 107, "/dev/vg/hf-1")
	require.NoError(t, err)
	require.Equal(t, executor.ResourceStatus{HasConfig: true, HasMetadata: true, JustCreated: true, SyncPercent: -1}, m)
	frozen, _ := newReplicatorInState(t, "suspended")
	ids, err := frozen.ListSuspended(t.Context())
	require.NoError(t, err)
	require.Equal(t, []fsm.VolumeID{testVolume}, ids)
}

func TestHowMuchReplicasDifferIsReadOfAllAtOnce(t *testing.T) {
	for state, want := range map[string]map[fsm.VolumeID]executor.SyncStatus{
		"":                    {},
		"connected_secondary": {testVolume: {Connection: fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED, Percent: -1}},
		"sync_target":         {testVolume: {Connection: fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET, OutOfSync: 65244 << 10, Percent: 6}},
		"suspended":           {testVolume: {Connection: fsmpb.ConnectionState_CONNECTION_STATE_CONNECTING, Percent: -1, Suspended: true}},
	} {
		r, fake := newReplicatorInState(t, state)
		ran := len(fake.calls)
		for range 2 {
			all, err := r.ListSync(t.Context())
			require.NoError(t, err)
			require.Len(t, all, len(want), state)
			for id, s := range want {
				require.Equal(t, s, all[id], state)
			}
		}
		require.Len(t, fake.calls, ran, "it runs no command")
		require.NoError(t, os.Remove(r.files.path(testVolume)))
		all, err := r.ListSync(t.Context())
		require.NoError(t, err)
		require.Empty(t, all, "it is none of ours")
		require.NoError(t, os.Remove(filepath.Join(r.config.procDir, "drbd")))
		all, err = r.ListSync(t.Context())
		require.NoError(t, err)
		require.Empty(t, all, "the module is not loaded")
	}
}

// S45: what suspend-io holds back is told from what the loss of the peer does, in the names of the kernel's reasons.
func TestS45_ObserveTellsWhatSuspendIOHoldsBack(t *testing.T) {
	for reasons, frozen := range map[string]bool{"no": false, "fencing": false, "user": true, "user,fencing": true, "no-data,fencing": false, "no-data,user": true} {
		r, fake := newReplicatorInState(t, "suspended")
		fake.suspended = reasons
		for range 2 {
			m, err := r.Observe(t.Context(), testVolume, 107, "/dev/vg/hf-1")
			require.NoError(t, err)
			require.True(t, m.Suspended)
			require.Equal(t, frozen, m.Frozen, reasons)
		}
	}
}

func TestAMinorOfAnotherVolumeIsNotTouched(t *testing.T) {
	r, fake := newReplicatorInState(t, "connected_secondary")
	other := testResource()
	other.Volume = "hf-0190a0e2-7b1c-7e39-8d55-6f3b2a1c0d02"
	require.NoError(t, r.Configure(t.Context(), other))
	var refused *fsm.Rejection
	require.ErrorAs(t, r.Detach(t.Context(), other.Volume, true), &refused)
	require.Equal(t, fsm.InUse, refused.Reason)
	_, err := r.Observe(t.Context(), other.Volume, 107, "")
	require.ErrorAs(t, err, &refused)
	require.Empty(t, fake.calls)
}

// While the kernel lists its resources, a minor may be taken down and made again for another
// volume. The list of before must not say whose it is for good.
func TestAMinorThatIsTakenDownWhileItsOwnerIsAskedHasAnother(t *testing.T) {
	r, fake := newReplicatorInState(t, "connected_primary")
	other := testResource()
	other.Volume = "hf-0190a0e2-7b1c-7e39-8d55-6f3b2a1c0d02"
	require.NoError(t, r.Configure(t.Context(), other))
	lists := 0
	fake.listHook = func(events string) string {
		if lists++; lists == 1 {
			r.kernel.forgetOwner(107) // as Down does
			return events
		}
		return strings.ReplaceAll(events, string(testVolume), string(other.Volume))
	}
	for range 2 {
		m, err := r.Observe(t.Context(), other.Volume, 107, "")
		require.NoError(t, err)
		require.True(t, m.InKernel)
	}
	require.Equal(t, 2, lists)
}

// A resource that an interrupted attach left has no minor. Minor 0 is another resource's.
func TestAResourceWithoutAMinorIsTakenDown(t *testing.T) {
	r, fake := newReplicatorInState(t, "primary_alone")
	proc := filepath.Join(r.config.procDir, "drbd")
	text, err := os.ReadFile(proc)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(proc, []byte(strings.Replace(string(text), "107: cs:", "0: cs:", 1)), 0o600))
	fake.listHook = func(string) string {
		return "exists resource name:" + string(testVolume) + " role:Secondary suspended:no write-ordering:flush\nexists -\n"
	}
	require.NoError(t, r.Down(t.Context(), testVolume))
	require.Equal(t, []string{"drbdsetup down"}, fake.calls)
}

func TestAnEndedEventStreamIsRestartedAndReportsEveryVolume(t *testing.T) {
	r, _ := newReplicatorInState(t, "connected_primary")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reported := 0
	err := r.Watch(ctx, func(id fsm.VolumeID) {
		require.Equal(t, testVolume, id)
		if reported++; reported == 3 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, reported)
}
