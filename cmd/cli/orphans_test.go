package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/csi/identity"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// orphanWorld is a cluster and an API server. The API server has listedVolume only.
type orphanWorld struct {
	adminpb.UnimplementedAdminServer
	volumes   []*adminpb.Volume
	gone      []*adminpb.Volume // that were deleted
	made      time.Time
	breakAt   int // the deletion after which the call is cut off; 0: none
	deleted   int
	claimUID  string // of the claim shop/data; empty: there is none
	renewing  string // the volume whose PersistentVolume is being made anew, and is not there; empty: none
	ownOnly   bool   // ConfigMaps may be read in the own namespace only
	elsewhere bool   // the controllers are in another namespace
	broken    string // the PersistentVolume that is being made anew, and of which what was saved cannot be read; empty: none
	empty     bool   // there is no PersistentVolume
}

func newOrphanWorld() *orphanWorld {
	volume := func(id, name string) *adminpb.Volume {
		return &adminpb.Volume{Id: id, Name: name, Phase: "ready", Origin: "default", Home: "default", Claim: &adminpb.Claim{Namespace: "shop", Name: "data"}}
	}
	return &orphanWorld{made: time.Now().Add(-2 * time.Hour), volumes: []*adminpb.Volume{
		volume(listedVolume, "pvc-a"), volume(leakedVolume, "pvc-b"), volume("hf-00000000-0000-4000-8000-00000000000c", "pvc-c"),
	}}
}

func (w *orphanWorld) Volumes(context.Context, *adminpb.VolumesRequest) (*adminpb.VolumesResponse, error) {
	return &adminpb.VolumesResponse{Index: 9, Volumes: w.volumes}, nil
}

func (*orphanWorld) Snapshots(context.Context, *adminpb.SnapshotsRequest) (*adminpb.SnapshotsResponse, error) {
	return &adminpb.SnapshotsResponse{}, nil
}

func (w *orphanWorld) History(req *adminpb.HistoryRequest, stream grpc.ServerStreamingServer[adminpb.HistoryResponse]) error {
	for _, v := range append(slices.Clone(w.volumes), w.gone...) {
		if req.GetVolume() != "" && req.GetVolume() != v.GetId() {
			continue
		}
		err := stream.Send(&adminpb.HistoryResponse{Body: &adminpb.HistoryResponse_Entry{Entry: &adminpb.HistoryEntry{
			Kind: "create_volume", At: w.made.UTC().Format(time.RFC3339Nano), Volumes: []string{v.GetId()}, Outcome: &fsmpb.Outcome{VolumeId: v.GetId()},
		}}})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *orphanWorld) has(id string) bool {
	return slices.ContainsFunc(w.volumes, func(v *adminpb.Volume) bool { return v.GetId() == id })
}

func (w *orphanWorld) answer(id string) *adminpb.VolumeChangeResponse {
	state := "done"
	if w.has(id) {
		state = "pending"
	}
	return &adminpb.VolumeChangeResponse{VolumeId: id, Done: !w.has(id), Steps: []*adminpb.PlanStep{{State: state}}}
}

func (w *orphanWorld) PlanVolume(_ context.Context, req *adminpb.VolumeChangeRequest) (*adminpb.VolumeChangeResponse, error) {
	return w.answer(req.GetVolume()), nil
}

func (w *orphanWorld) ChangeVolume(_ context.Context, req *adminpb.VolumeChangeRequest) (*adminpb.VolumeChangeResponse, error) {
	w.volumes = slices.DeleteFunc(w.volumes, func(v *adminpb.Volume) bool {
		if v.GetId() == req.GetVolume() {
			w.gone = append(w.gone, v)
		}
		return v.GetId() == req.GetVolume()
	})
	if w.deleted++; w.deleted == w.breakAt {
		return nil, status.Error(codes.Unavailable, "cut off")
	}
	return w.answer(req.GetVolume()), nil
}

// kubeconfig serves the API server, and answers how it is reached.
func (w *orphanWorld) kubeconfig(t *testing.T) string {
	t.Helper()
	return serveKube(t, func(out http.ResponseWriter, req *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		switch req.URL.Path {
		case "/api/v1/persistentvolumes":
			if w.empty {
				fmt.Fprint(out, `{"kind":"PersistentVolumeList","apiVersion":"v1","items":[]}`)
				return
			}
			fmt.Fprintf(out, `{"kind":"PersistentVolumeList","apiVersion":"v1","items":[{"kind":"PersistentVolume","metadata":{"name":"pvc-a"},"spec":{"csi":{"driver":%q,"volumeHandle":%q}}}]}`, identity.Name, listedVolume)
		case "/api/v1/configmaps", "/api/v1/namespaces/default/configmaps":
			w.serveSaved(out, req)
		case "/api/v1/namespaces/default/configmaps/holdfast-cluster":
			if w.elsewhere {
				out.WriteHeader(http.StatusNotFound)
				fmt.Fprint(out, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"there is none","code":404}`)
				return
			}
			fmt.Fprint(out, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"holdfast-cluster"}}`)
		case "/api/v1/persistentvolumeclaims":
			fmt.Fprintf(out, `{"kind":"PersistentVolumeClaimList","apiVersion":"v1","items":[{"metadata":{"name":"data","namespace":"shop","uid":%q}}]}`, w.claimUID)
		case "/apis/storage.k8s.io/v1/volumeattachments":
			fmt.Fprint(out, `{"kind":"VolumeAttachmentList","apiVersion":"storage.k8s.io/v1","items":[]}`)
		case "/api/v1/namespaces/shop/persistentvolumeclaims/data":
			if w.claimUID != "" {
				fmt.Fprintf(out, `{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"data","namespace":"shop","uid":%q}}`, w.claimUID)
				return
			}
			fallthrough
		default:
			out.WriteHeader(http.StatusNotFound)
			fmt.Fprint(out, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
	})
}

// serveKube serves an API server, and answers the kubeconfig's path.
func serveKube(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: %q}}]\nusers: [{name: a, user: {token: t}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n", server.URL)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// serveSaved serves the ConfigMaps with PersistentVolumes that are being made anew.
func (w *orphanWorld) serveSaved(out http.ResponseWriter, req *http.Request) {
	switch {
	case w.ownOnly && req.URL.Path == "/api/v1/configmaps":
		out.WriteHeader(http.StatusForbidden)
		fmt.Fprint(out, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	case w.broken != "":
		fmt.Fprintf(out, `{"kind":"ConfigMapList","apiVersion":"v1","items":[{"metadata":{"name":"holdfast-saved-%s","namespace":"default"},"data":{}}]}`, w.broken)
	case w.renewing == "" || req.URL.Query().Get("labelSelector") != "holdfast.storage/saved-volume":
		fmt.Fprint(out, `{"kind":"ConfigMapList","apiVersion":"v1","items":[]}`)
	default:
		pv := fmt.Sprintf(`{"metadata":{"name":"static","uid":"u"},"spec":{"csi":{"driver":%q,"volumeHandle":%q}}}`, identity.Name, w.renewing)
		fmt.Fprintf(out, `{"kind":"ConfigMapList","apiVersion":"v1","items":[{"metadata":{"name":"holdfast-saved-static","namespace":"default"},"data":{"persistent-volume.json":%q}}]}`, pv)
	}
}

// run calls the command.
func (w *orphanWorld) run(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var both bytes.Buffer
	all := append([]string{"volumes", "orphans"}, args...)
	all = append(append(all, "--kubeconfig", w.kubeconfig(t)), serveAdmin(t, w)...)
	return Main(all, &both, &both), both.String()
}

func TestOrphansAreShownAndLeft(t *testing.T) {
	w := newOrphanWorld()
	for range 2 {
		code, out := w.run(t)
		require.Equal(t, exit.Refused, code, out)
		require.Contains(t, out, leakedVolume)
		require.Contains(t, out, "2 found")
		require.Zero(t, w.deleted)
	}
}

func TestOnlyWhatIsNamedIsDeleted(t *testing.T) {
	w := newOrphanWorld()
	code, out := w.run(t, leakedVolume, "--yes")
	require.Equal(t, exit.OK, code, out)
	require.Equal(t, 1, w.deleted)
	require.False(t, w.has(leakedVolume))
	code, out = w.run(t, listedVolume, "--yes")
	require.Equal(t, exit.Refused, code, out)
	require.Contains(t, out, "it is no orphan now")
	require.True(t, w.has(listedVolume))
	code, out = w.run(t, "--yes")
	require.Equal(t, exit.Usage, code, out)
}

func TestWhatIsNoVolumeIsNotSaidToBeDeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		id, says string
		code     int
	}{
		"an orphan's name":        {"pvc-b", `"pvc-b" is no volume's id`, exit.Usage},
		"a snapshot":              {"hs-00000000-0000-4000-8000-00000000000b", "is no volume's id", exit.Usage},
		"one that never was":      {"hf-00000000-0000-4000-8000-00000000000d", "is left: there is no such volume", exit.Refused},
		"one that Kubernetes has": {listedVolume, "is left: it is no orphan now", exit.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOrphanWorld()
			for range 2 {
				code, out := w.run(t, tc.id, "--yes")
				require.Equal(t, tc.code, code, out)
				require.Contains(t, out, tc.says)
				require.NotContains(t, out, "is deleted")
				require.Zero(t, w.deleted)
			}
		})
	}
}

func TestAVolumeWhoseClaimWaitsIsNoOrphan(t *testing.T) {
	w := newOrphanWorld()
	w.claimUID = "b" // its volume is pvc-b
	code, out := w.run(t, leakedVolume, "--yes")
	require.Equal(t, exit.Refused, code, out)
	require.Contains(t, out, "its claim shop/data still exists")
	w.claimUID = "another" // a claim of the same name that was made since
	code, out = w.run(t, leakedVolume, "--yes")
	require.Equal(t, exit.OK, code, out)
}

// S172: a volume whose PersistentVolume is being made anew is no orphan, whatever its claim is called.
func TestS172_AVolumeThatIsMadeAnewIsNoOrphan(t *testing.T) {
	for _, ownOnly := range []bool{false, true} {
		w := newOrphanWorld()
		w.renewing, w.ownOnly = leakedVolume, ownOnly
		for range 2 {
			code, out := w.run(t, leakedVolume, "--yes")
			require.Equal(t, exit.Refused, code, out)
			require.True(t, w.has(leakedVolume))
		}
		code, out := w.run(t)
		require.Equal(t, exit.Refused, code, out)
		require.Contains(t, out, "1 found")
	}
}

// S172: who may not see all namespaces, and looks into one that is not the controllers', is told so: what is being made anew would be an orphan.
func TestS172_AnotherNamespaceHidesNoVolume(t *testing.T) {
	w := newOrphanWorld()
	w.renewing, w.ownOnly, w.elsewhere = leakedVolume, true, true
	for _, args := range [][]string{nil, {leakedVolume, "--yes"}} {
		code, out := w.run(t, args...)
		require.Equal(t, exit.Unavailable, code, out)
		require.Contains(t, out, "--holdfast-namespace")
		require.True(t, w.has(leakedVolume))
	}
}

// S172: what was saved of one volume and cannot be read keeps that one, and where it is not known which that is, all; they are shown.
func TestS172_ASavedVolumeThatCannotBeReadIsNoOrphan(t *testing.T) {
	other := "hf-00000000-0000-4000-8000-00000000000c"
	for name, tc := range map[string]struct {
		broken string
		left   []string
	}{
		"one that is made anew":    {"pvc-b", []string{leakedVolume}},
		"one that is there":        {"pvc-a", nil},
		"one of nobody knows what": {"static", []string{leakedVolume, other}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOrphanWorld()
			w.broken = tc.broken
			code, out := w.run(t)
			require.Equal(t, exit.Refused, code, out)
			require.Contains(t, out, "2 found")
			require.Contains(t, out, "PersistentVolume "+tc.broken+" is being made anew, and cannot be read")
			for range 2 {
				code, out = w.run(t, leakedVolume, other, "--yes")
				require.Equal(t, len(tc.left) > 0, code == exit.Refused, out)
				for _, id := range []string{leakedVolume, other} {
					require.Equal(t, slices.Contains(tc.left, id), w.has(id), out)
				}
			}
		})
	}
}

// A provisioner that does not say for which claim it makes a volume may be about to write its PersistentVolume too.
func TestAVolumeWhoseClaimIsNotNamedMayBeBoundYet(t *testing.T) {
	w := newOrphanWorld()
	w.volumes[1].Claim, w.claimUID = nil, "b"
	for range 2 {
		code, out := w.run(t, leakedVolume, "--yes")
		require.Equal(t, exit.Refused, code, out)
		require.Contains(t, out, "still exists")
		require.True(t, w.has(leakedVolume))
	}
	w.claimUID = "another"
	code, out := w.run(t, leakedVolume, "--yes")
	require.Equal(t, exit.OK, code, out)
}

// Where Kubernetes and the log both have nothing there is no orphan. Where the log has something, an empty list is another cluster's, and
// deletes nothing.
func TestAnEmptyClusterHasNoOrphans(t *testing.T) {
	w := newOrphanWorld()
	w.empty = true
	for _, args := range [][]string{nil, {leakedVolume, "--yes"}, {leakedVolume, listedVolume, "--yes"}} {
		for _, made := range []time.Time{w.made, time.Now()} {
			w.made = made
			code, out := w.run(t, args...)
			require.Equal(t, exit.Refused, code, out)
			require.Contains(t, out, "of the 3 volumes and snapshots that the log")
			require.Len(t, w.volumes, 3)
		}
	}
	for i, v := range w.volumes {
		v.MadeBy = fmt.Sprint("admin/a", i) // by operators: no list has to name them
	}
	for range 2 {
		code, out := w.run(t)
		require.Equal(t, exit.OK, code, out)
		require.Contains(t, out, "0 found")
	}
	code, out := w.run(t, leakedVolume, "--yes")
	require.Equal(t, exit.Refused, code, out)
	require.Len(t, w.volumes, 3)
	w.volumes = nil
	code, out = w.run(t)
	require.Equal(t, exit.OK, code, out)
	require.Zero(t, w.deleted)
}

func TestTheListOfAnotherClusterDeletesNothing(t *testing.T) {
	w := newOrphanWorld()
	w.volumes = w.volumes[1:] // the log does not have what Kubernetes has
	for range 2 {
		code, out := w.run(t, leakedVolume, "--yes")
		require.Equal(t, exit.Refused, code, out)
		require.Contains(t, out, "are both of one cluster?")
		require.Zero(t, w.deleted)
	}
}

func TestAYoungVolumeIsNoOrphan(t *testing.T) {
	w := newOrphanWorld()
	w.made = time.Now()
	code, out := w.run(t, leakedVolume, "--yes")
	require.Equal(t, exit.Refused, code, out)
	require.True(t, w.has(leakedVolume))
}

// The answer to a deletion is lost, and the same command goes on: what is deleted already is done.
func TestS71_OrphansGoOnWhereTheyWereInterrupted(t *testing.T) {
	ids := []string{leakedVolume, "hf-00000000-0000-4000-8000-00000000000c"}
	for cut := 1; cut <= len(ids); cut++ {
		w := newOrphanWorld()
		w.breakAt = cut
		code, out := w.run(t, append([]string{"--yes"}, ids...)...)
		require.NotEqual(t, exit.OK, code, out)
		for range 2 {
			code, out = w.run(t, append([]string{"--yes"}, ids...)...)
			require.Equal(t, exit.OK, code, out)
		}
		require.Len(t, w.volumes, 1)
		require.True(t, w.has(listedVolume))
	}
}
