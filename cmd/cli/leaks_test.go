package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	listedVolume = "hf-00000000-0000-4000-8000-00000000000a"
	leakedVolume = "hf-00000000-0000-4000-8000-00000000000b"
)

// fakeLeaksAPI has two volumes; the second was made at a time.
type fakeLeaksAPI struct {
	adminpb.UnimplementedAdminServer
	made time.Time
}

func (f *fakeLeaksAPI) Volumes(context.Context, *adminpb.VolumesRequest) (*adminpb.VolumesResponse, error) {
	return &adminpb.VolumesResponse{Index: 9, Volumes: []*adminpb.Volume{
		{Id: listedVolume, Phase: "ready", Origin: "default", Home: "default"}, {Id: leakedVolume, Name: "pvc-b", Phase: "ready", Origin: "default", Home: "default", SizeBytes: 1 << 30},
	}}, nil
}

func (f *fakeLeaksAPI) Snapshots(context.Context, *adminpb.SnapshotsRequest) (*adminpb.SnapshotsResponse, error) {
	return &adminpb.SnapshotsResponse{}, nil
}

func (f *fakeLeaksAPI) History(_ *adminpb.HistoryRequest, stream grpc.ServerStreamingServer[adminpb.HistoryResponse]) error {
	return stream.Send(&adminpb.HistoryResponse{Body: &adminpb.HistoryResponse_Entry{Entry: &adminpb.HistoryEntry{
		Kind: "create_volume", Actor: "controller/c1", At: f.made.UTC().Format(time.RFC3339Nano), Volumes: []string{leakedVolume}, Outcome: &fsmpb.Outcome{VolumeId: leakedVolume},
	}}})
}

func TestLeaksEndWithTheirExitCode(t *testing.T) {
	whole := listedVolume + "\n"
	for name, tc := range map[string]struct {
		list string
		args []string
		made time.Duration // before now
		code int
		want string
	}{
		"a leak":              {whole, nil, 2 * time.Hour, exit.Refused, leakedVolume},
		"who made it":         {whole, nil, 2 * time.Hour, exit.Refused, "controller/c1"},
		"the remedy":          {whole, nil, 2 * time.Hour, exit.Refused, leakedVolume},
		"a young volume":      {whole, nil, time.Minute, exit.OK, "too young"},
		"young enough":        {whole, []string{"--older-than", "1s"}, time.Minute, exit.Refused, "1 found"},
		"nothing":             {whole + leakedVolume + "\n", nil, 2 * time.Hour, exit.OK, "0 found"},
		"what only it names":  {whole + leakedVolume + "\nhf-00000000-0000-4000-8000-00000000000f\n", nil, 2 * time.Hour, exit.Refused, "lost"},
		"an empty list":       {"", nil, 2 * time.Hour, exit.Usage, "empty"},
		"a list cut short":    {listedVolume, nil, 2 * time.Hour, exit.Usage, "cut short"},
		"a site that is none": {whole, []string{"--site", "north"}, 2 * time.Hour, exit.Usage, "north"},
		"another list's kind": {`{"kind":"PodList"}`, nil, 2 * time.Hour, exit.Usage, "PodList"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &fakeLeaksAPI{made: time.Now().Add(-tc.made)}
			list := filepath.Join(t.TempDir(), "list")
			require.NoError(t, os.WriteFile(list, []byte(tc.list), 0o600))
			args := append(append([]string{"volumes", "leaks", "--list", list}, tc.args...), serveAdmin(t, api)...)
			for range 2 {
				var out bytes.Buffer
				require.Equal(t, tc.code, Main(args, &out, &out), out.String())
				require.Contains(t, out.String(), tc.want)
			}
		})
	}
}

// Standard input is as old as the call.
func TestLeaksReadStandardInput(t *testing.T) {
	before := time.Now()
	o := &leaksOptions{file: "-"}
	list, taken, err := o.readList(strings.NewReader(listedVolume + "\n"))
	require.NoError(t, err)
	require.Len(t, list.Volumes, 1)
	require.False(t, taken.Before(before))
	_, _, err = o.readList(strings.NewReader(""))
	require.ErrorContains(t, err, "empty")
}

// What is carried out is bound to the host and to the device that the plan showed.
func TestAnImportIsBoundToItsDevice(t *testing.T) {
	args := []string{"import", "lv", "--node", "n1", "--lv", "vg/data", "--name", "pvc-1", "--host-id", "h", "--yes"}
	for name, tc := range map[string]struct {
		more    []string
		code    int
		plans   int
		carried int
		stderr  string
	}{
		"without the device": {nil, exit.Usage, 1, 0, "--device-id"},
		"with it":            {[]string{"--device-id", "uuid"}, exit.OK, 0, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &fakeAdminAPI{answers: []string{"done"}}
			var stdout, stderr bytes.Buffer
			require.Equal(t, tc.code, Main(append(append(args[:len(args):len(args)], tc.more...), a.serve(t)...), &stdout, &stderr), stderr.String())
			require.Contains(t, stderr.String(), tc.stderr)
			require.Len(t, a.plans, tc.plans)
			require.Len(t, a.carriedOut, tc.carried)
		})
	}
}

func TestLeaksNeedAList(t *testing.T) {
	for _, args := range [][]string{{"volumes", "leaks"}, {"volumes", "leaks", "--list", "/nonexistent/list"}, {"import", "lv"}, {"import", "lv", "--node", "n1", "--name", "x"}} {
		var out bytes.Buffer
		require.Equal(t, exit.Usage, Main(append(args, serveAdmin(t, &fakeLeaksAPI{})...), &out, &out), "%q: %s", args, &out)
	}
}

func TestLeaksAreSelectedAndWatched(t *testing.T) {
	const lost = "hf-00000000-0000-4000-8000-00000000000f"
	list := filepath.Join(t.TempDir(), "list")
	require.NoError(t, os.WriteFile(list, []byte(listedVolume+"\n"+lost+"\n"), 0o600))
	flags := serveAdmin(t, &fakeLeaksAPI{made: time.Now().Add(-2 * time.Hour)})
	args := append([]string{"volumes", "leaks", "--list", list}, flags...)
	for more, want := range map[string]string{
		"":                                leakedVolume + " " + lost,
		"--sort-by -id":                   lost + " " + leakedVolume,
		"--kind lost,lost-snapshot":       lost,
		"--condition counted --kind leak": leakedVolume,
		"--condition young":               "",
		"--older-than 24h --kind leak":    leakedVolume, // it is shown, and is no finding
	} {
		for range 2 {
			code, stdout, stderr := runCommand(append(args, strings.Fields(more)...)...)
			require.Equal(t, exit.Refused, code, stderr)
			require.Equal(t, want, columnOf(stdout, 1, 2+strings.Count(stdout, "not compared: ")), more)
		}
	}
	w := watch(t, append(args, "--kind", "lost")...)
	require.Contains(t, w.line(w.stdout), "REMEDY")
	require.Regexp(t, "added +lost +"+lost, w.line(w.stdout))
	replace := func(with string) { // at once, so that the watch reads the old one or the new one
		require.NoError(t, os.WriteFile(list+".new", []byte(with), 0o600))
		require.NoError(t, os.Rename(list+".new", list))
	}
	replace(listedVolume)
	require.Contains(t, w.line(w.stderr), "cut short", "it is being written")
	replace(listedVolume + "\n" + leakedVolume + "\n")
	require.Contains(t, w.line(w.stderr), "answered again")
	require.Regexp(t, "removed +lost +"+lost, w.line(w.stdout))
	w.end()
}
