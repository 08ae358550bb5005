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
