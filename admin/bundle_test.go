package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/bundle"
)

var bundleEndings = []string{".tar.gz", ".tgz", ".tar.zst"}

func options() bundle.Options {
	return bundle.Options{Version: "v1", Now: func() time.Time { return time.Unix(1000, 0) }}
}

// writeBundle writes a bundle of a cluster.
func writeBundle(t *testing.T, b *admin.BundleEnv, ending string, o bundle.Options) (path string, m *bundle.Manifest) {
	t.Helper()
	client, stop := admin.NewLocalClient(b.Serve())
	defer stop()
	path = filepath.Join(t.TempDir(), "report"+ending)
	m, err := bundle.Write(t.Context(), path, client, o)
	require.NoError(t, err)
	return path, m
}

func openBundle(t *testing.T, path string) *bundle.Bundle {
	t.Helper()
	b, err := bundle.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func historyText(t *testing.T, client *admin.Client, format string, req *adminpb.HistoryRequest) string {
	t.Helper()
	var out bytes.Buffer
	var doc *admin.Document
	require.NoError(t, client.History(t.Context(), req, func(m *adminpb.HistoryResponse) (err error) {
		if header := m.GetHeader(); header != nil {
			doc, err = admin.NewDocument(&out, format, header, "entries")
			return err
		}
		return doc.Item("entries", m.GetEntry())
	}))
	require.NoError(t, doc.End())
	return out.String()
}

func stateText(t *testing.T, client *admin.Client, format string) string {
	t.Helper()
	var out bytes.Buffer
	doc := admin.StateDocument{W: &out, Format: format}
	require.NoError(t, client.State(t.Context(), &adminpb.StateRequest{}, doc.Add))
	require.NoError(t, doc.End())
	return out.String()
}

func answersText(t *testing.T, client *admin.Client, format string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, client.TryEach(t.Context(), func(ctx context.Context, api adminpb.AdminClient) error {
		audit, err := api.Audit(ctx, &adminpb.AuditRequest{})
		require.NoError(t, err)
		doctor, err := api.Doctor(ctx, &adminpb.DoctorRequest{})
		require.NoError(t, err)
		return errors.Join(admin.Print(&out, format, audit), admin.Print(&out, format, doctor))
	}))
	return out.String()
}

// everything is what the four commands print, in all formats and with filters.
func everything(t *testing.T, client *admin.Client) string {
	t.Helper()
	var out bytes.Buffer
	for _, format := range admin.Formats {
		for _, req := range []*adminpb.HistoryRequest{{}, {Volume: "pvc-100"}, {Snapshot: "snap-1"}, {Node: "n1"}, {From: 5, To: 9}} {
			out.WriteString(historyText(t, client, format, req))
		}
		out.WriteString(stateText(t, client, format))
		out.WriteString(answersText(t, client, format))
	}
	return out.String()
}

func TestABundleReadsAsTheClusterDid(t *testing.T) {
	for _, ending := range bundleEndings {
		t.Run(ending, func(t *testing.T) {
			env := admin.NewBundleEnv(t)
			live, stop := admin.NewLocalClient(env.Serve())
			defer stop()
			want := everything(t, live)
			require.Contains(t, want, "orphan.img")
			path, m := writeBundle(t, env, ending, options())
			require.Empty(t, m.Missing)
			for range 2 {
				offline, stop := openBundle(t, path).Client(0)
				require.Equal(t, want, everything(t, offline))
				stop()
			}
		})
	}
}

func TestTheStateOfABundleAtEachIndexIsWhatItWas(t *testing.T) {
	for name, tc := range map[string]struct {
		store bool
		first uint64 // the first index whose state is known; 0: that after the env was made
		o     func(*bundle.Options)
	}{
		"from the beginning":   {o: func(*bundle.Options) {}},
		"from a Raft snapshot": {store: true, o: func(o *bundle.Options) { o.Entries = 3 }},
		"since a time":         {store: true, o: func(o *bundle.Options) { o.Since = time.Unix(0, 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			env := admin.NewBundleEnv(t)
			live, stop := admin.NewLocalClient(env.Serve())
			defer stop()
			states := map[uint64]string{}
			if tc.store {
				env.Store()
			}
			for range 4 {
				states[env.Index()] = stateText(t, live, "json")
				env.Work()
			}
			o := options()
			tc.o(&o)
			path, m := writeBundle(t, env, ".tar.gz", o)
			require.Equal(t, tc.store, m.Log.Base != 0)
			b := openBundle(t, path)
			for index, want := range states {
				for range 2 {
					offline, stop := b.Client(index)
					require.Equal(t, want, stateText(t, offline, "json"), "index %d", index)
					stop()
				}
			}
			_, err := b.StateAt(env.Index() + 1)
			require.ErrorContains(t, err, fmt.Sprintf("up to index %d", env.Index()))
		})
	}
}

func TestAStateThatNothingLeadsToIsRefused(t *testing.T) {
	env := admin.NewBundleEnv(t)
	o := options()
	o.Entries = 2
	_, m := writeBundle(t, env, ".tar.gz", o)
	require.EqualValues(t, 1, m.Log.From, "without a Raft snapshot, the beginning is what leads to the state")
	env.Forget()
	path, _ := writeBundle(t, env, ".tar.gz", o)
	b := openBundle(t, path)
	for range 2 {
		_, err := b.StateAt(env.Index() - 1)
		require.ErrorContains(t, err, "no earlier one was stored")
		_, err = b.StateAt(env.Index())
		require.NoError(t, err)
	}
	env.Store()
	stored := env.Index()
	env.Work()
	path, _ = writeBundle(t, env, ".tar.gz", o)
	_, err := openBundle(t, path).StateAt(stored - 1)
	require.ErrorContains(t, err, fmt.Sprintf("from index %d to %d", stored, env.Index()))
}

func TestABundleIsPrivateAndReplacesNothing(t *testing.T) {
	env := admin.NewBundleEnv(t)
	path, m := writeBundle(t, env, ".tar.gz", options())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "what was gathered on the way is gone")
	for _, file := range m.Files {
		if file.Name != "base.dump" {
			require.NotZero(t, file.Index, file.Name)
		}
	}
	client, stop := admin.NewLocalClient(env.Serve())
	defer stop()
	for range 2 {
		_, err = bundle.Write(t.Context(), path, client, options())
		require.ErrorContains(t, err, "is there already")
		_, err = bundle.Write(t.Context(), filepath.Join(t.TempDir(), "report.zip"), client, options())
		require.ErrorContains(t, err, "neither in .tar.gz nor in .tar.zst")
	}
}

func TestWhatCannotBeGatheredIsInTheManifest(t *testing.T) {
	env := admin.NewBundleEnv(t)
	env.LoseQuorum()
	o := options()
	o.Metrics = map[string]func(context.Context, io.Writer) error{
		"c1": func(_ context.Context, w io.Writer) error { _, err := io.WriteString(w, "up 1\n"); return err },
		"c2": func(context.Context, io.Writer) error { return errors.New("refused") },
	}
	path, m := writeBundle(t, env, ".tar.zst", o)
	reasons := map[string]string{}
	for _, part := range m.Missing {
		reasons[part.Name] = part.Reason
	}
	require.Contains(t, reasons["audit.json"], "no quorum")
	require.Contains(t, reasons["versions.json"], "no quorum")
	require.NotContains(t, reasons, "volumes.json", "what needs no quorum is read without one")
	require.NotContains(t, reasons, "state.json")
	require.Equal(t, "refused", reasons["metrics-c2.txt"])
	require.NotContains(t, reasons, "metrics-c1.txt")
	require.NotContains(t, reasons, "doctor.json", "what one controller knows is there without a quorum")
	require.NotContains(t, reasons, "state.dump")
	offline, stop := openBundle(t, path).Client(0)
	defer stop()
	for range 2 {
		require.Contains(t, stateText(t, offline, "json"), "pvc-100")
		err := offline.TryEach(t.Context(), func(ctx context.Context, api adminpb.AdminClient) error {
			_, err := api.Audit(ctx, &adminpb.AuditRequest{})
			return err
		})
		require.ErrorContains(t, err, "the bundle has no audit.json: local: no quorum")
	}
}

// A stored Raft snapshot that is damaged costs the bundle what is before it, not the state and the journal.
func TestABundleOfAControllerWhoseRaftSnapshotIsDamaged(t *testing.T) {
	for name, said := range map[string]error{"it says so": errors.New("its checksum differs"), "it sends something else": nil} {
		t.Run(name, func(t *testing.T) {
			env := admin.NewBundleEnv(t)
			env.Store()
			env.Work()
			env.Damage(said)
			o := options()
			o.Entries = 2
			for range 2 {
				path, m := writeBundle(t, env, ".tar.gz", o)
				require.Len(t, m.Missing, 1)
				require.Equal(t, "base.dump", m.Missing[0].Name)
				if said != nil {
					require.Contains(t, m.Missing[0].Reason, said.Error())
				}
				b := openBundle(t, path)
				_, err := b.StateAt(env.Index())
				require.NoError(t, err)
				_, err = b.StateAt(env.Index() - 1)
				require.NoError(t, err, "the journal leads to it from the beginning")
			}
		})
	}
}

func TestNothingIsWrittenOfAClusterThatDoesNotAnswer(t *testing.T) {
	client, stop := admin.NewLocalClient(adminpb.UnimplementedAdminServer{})
	defer stop()
	dir := t.TempDir()
	for range 2 {
		_, err := bundle.Write(t.Context(), filepath.Join(dir, "report.tar.gz"), client, options())
		require.ErrorIs(t, err, bundle.ErrNothing)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

func TestNothingStaysOfABundleThatIsRead(t *testing.T) {
	path, _ := writeBundle(t, admin.NewBundleEnv(t), ".tar.gz", options())
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for range 2 {
		b := openBundle(t, path)
		left, err := os.ReadDir(temporary)
		require.NoError(t, err)
		require.Empty(t, left, "also while it is read")
		_, err = b.StateAt(0)
		require.NoError(t, err)
	}
}

func TestADamagedBundleIsRefused(t *testing.T) {
	for _, ending := range bundleEndings[1:] {
		t.Run(ending, func(t *testing.T) {
			path, _ := writeBundle(t, admin.NewBundleEnv(t), ending, options())
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			refused := func(content []byte, what string) {
				damaged := filepath.Join(t.TempDir(), "damaged"+ending)
				require.NoError(t, os.WriteFile(damaged, content, 0o600))
				_, err := bundle.Open(damaged)
				require.ErrorContains(t, err, "is refused", what)
			}
			for _, length := range []int{0, 5, len(whole) / 3, len(whole) / 2, len(whole) - 1} {
				refused(whole[:length], fmt.Sprintf("cut to %d of %d bytes", length, len(whole)))
			}
			for at := 16; at < len(whole); at += len(whole)/16 + 1 {
				flipped := bytes.Clone(whole)
				flipped[at] ^= 0xff // a bit alone may be one that pads a block of the compression, and says nothing
				refused(flipped, fmt.Sprintf("a byte differs at %d", at))
			}
			refused(append(bytes.Clone(whole), "more"...), "something is behind it")
		})
	}
	_, err := bundle.Open(filepath.Join(t.TempDir(), "none.tar.gz"))
	require.ErrorContains(t, err, "no such file")
}
