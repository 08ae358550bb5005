package bootstrap

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/kube/apitest"
	"github.com/holdfast-storage/holdfast/kube/wait"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

const record = "configmaps/holdfast-cluster"

var loop = wait.Loop{Log: slog.New(slog.DiscardHandler), Most: 10 * time.Millisecond}

func configOf(api kubernetes.Interface, dir string) Config {
	return Config{Client: api, Namespace: "ns", Name: "holdfast-cluster", Dir: dir, Wait: loop}
}

// folder is a data folder that is not there yet.
func folder(t *testing.T) string { return filepath.Join(t.TempDir(), "data") }

func decided(t *testing.T, api kubernetes.Interface, dir string) bool {
	t.Helper()
	v, err := Decide(t.Context(), configOf(api, dir))
	require.NoError(t, err)
	read, err := ReadVerdict(File(dir))
	require.NoError(t, err)
	require.Equal(t, v, read)
	return v.Bootstrap
}

// withLog makes the folder a member's of a cluster.
func withLog(t *testing.T, dir, cluster string) string {
	t.Helper()
	s, err := store.Open(store.Options{Dir: dir, Kind: store.WAL})
	require.NoError(t, err)
	if cluster != "" {
		require.NoError(t, s.SetClusterID(cluster))
	}
	require.NoError(t, s.Close())
	return dir
}

func TestS167_OneFolderFoundsTheCluster(t *testing.T) {
	var f apitest.Fake
	api := f.Serve(t)
	first, second := folder(t), folder(t)
	for range 2 {
		require.True(t, decided(t, api, first))
		require.False(t, decided(t, api, second))
	}
	require.False(t, decided(t, api, folder(t)), "the same controller with a new disk")
	require.Equal(t, true, f.Object(record)["immutable"])
}

// A controller whose folder has a log goes on with it, whatever the ConfigMap says, and also without an API server.
func TestS167_AFolderWithALogFoundsNothing(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, f *apitest.Fake, api kubernetes.Interface, dir string){
		"it founded the cluster": func(t *testing.T, _ *apitest.Fake, api kubernetes.Interface, dir string) {
			require.True(t, decided(t, api, dir))
			withLog(t, dir, "c1")
		},
		"it founded it, and the ConfigMap is gone": func(t *testing.T, f *apitest.Fake, api kubernetes.Interface, dir string) {
			require.True(t, decided(t, api, dir))
			withLog(t, dir, "c1")
			f.Remove(record)
		},
		"the ConfigMap is not there": func(t *testing.T, _ *apitest.Fake, _ kubernetes.Interface, dir string) { withLog(t, dir, "c1") },
		"the ConfigMap is another folder's": func(t *testing.T, _ *apitest.Fake, api kubernetes.Interface, dir string) {
			require.True(t, decided(t, api, folder(t)))
			withLog(t, dir, "c1")
		},
		"the API server is away": func(t *testing.T, f *apitest.Fake, _ kubernetes.Interface, dir string) {
			f.Before = func(string) bool { return false }
			withLog(t, dir, "c1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var f apitest.Fake
			api, dir := f.Serve(t), folder(t)
			before(t, &f, api, dir)
			for range 2 {
				require.False(t, decided(t, api, dir))
			}
			if f.Before == nil {
				require.NotNil(t, f.Object(record))
				require.False(t, decided(t, api, folder(t)), "nobody founds another cluster")
			}
		})
	}
}

// With all data kept and the ConfigMap gone, a reinstalled cluster goes on, in whatever order its controllers start.
func TestS167_AReinstalledClusterGoesOn(t *testing.T) {
	var f apitest.Fake
	api := f.Serve(t)
	var folders []string
	for range 3 {
		folders = append(folders, withLog(t, folder(t), "c1"))
	}
	for range 2 {
		for _, dir := range folders {
			require.False(t, decided(t, api, dir))
		}
		require.Equal(t, map[string]any{"cluster": "c1"}, f.Object(record)["data"])
	}
}

// A folder that a member began to make, and never used, is as good as an empty one; one of which a part is missing is not.
func TestS167_FoldersThatCannotBeRead(t *testing.T) {
	var f apitest.Fake
	api := f.Serve(t)
	unused := withLog(t, folder(t), "")
	require.True(t, decided(t, api, unused))
	f.Remove(record)
	damaged := withLog(t, folder(t), "c1")
	require.NoError(t, os.Remove(filepath.Join(damaged, "identity.json")))
	for range 2 {
		_, err := Decide(t.Context(), configOf(api, damaged))
		require.ErrorContains(t, err, "identity.json")
		require.NoFileExists(t, File(damaged))
	}
	require.Nil(t, f.Object(record), "nothing was decided")
	half := folder(t)
	require.NoError(t, os.Mkdir(half, 0o700))
	require.NoError(t, os.WriteFile(File(half), []byte(`{"id":"`), 0o600))
	_, err := Decide(t.Context(), configOf(api, half))
	require.ErrorContains(t, err, "kube-init.json")
	_, err = ReadVerdict(File(folder(t)))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// However far a first start came, and whoever started meanwhile, one folder founds the cluster, and the same one at every start.
func TestS167_KilledBetweenAnyTwoSteps(t *testing.T) {
	for _, step := range []string{"before GET", "after GET", "before POST", "after POST"} {
		for _, other := range []bool{false, true} {
			t.Run(step, func(t *testing.T) {
				var f apitest.Fake
				api, one, two := f.Serve(t), folder(t), folder(t)
				killed(t, &f, api, one, step)
				founders := 0
				if other && decided(t, api, two) {
					founders++
				}
				for range 2 {
					if decided(t, api, one) {
						founders++
					}
					if other && decided(t, api, two) {
						founders++
					}
				}
				require.Contains(t, []int{2, 3}, founders)
				require.False(t, decided(t, api, one) && other && decided(t, api, two))
			})
		}
	}
}

// killed ends a decision at a step, as a kill would: nothing is done from there on.
func killed(t *testing.T, f *apitest.Fake, api kubernetes.Interface, dir, step string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	at := func(when string) func(string) bool {
		return func(request string) bool {
			if strings.HasPrefix(when+" "+request, step) {
				cancel()
			}
			return ctx.Err() == nil
		}
	}
	f.Before, f.After = at("before"), at("after")
	_, err := Decide(ctx, configOf(api, dir))
	require.Error(t, err)
	v, err := ReadVerdict(File(dir))
	require.NoError(t, err)
	require.False(t, v.Bootstrap, "it was not decided")
	f.Before, f.After = nil, nil
}

// While the API server is away, or another process uses the folder, nothing is decided.
func TestS167_ItWaitsAndGuessesNothing(t *testing.T) {
	var f apitest.Fake
	api, dir := f.Serve(t), folder(t)
	refused := make(chan struct{}, 100)
	away := true
	var mu sync.Mutex
	f.Before = func(string) bool {
		mu.Lock()
		defer mu.Unlock()
		select {
		case refused <- struct{}{}:
		default:
		}
		return !away
	}
	unlock, err := lock(dir) // which makes the folder
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Decide(ctx, configOf(api, dir))
	require.ErrorIs(t, err, errInUse)
	require.NoFileExists(t, File(dir))
	unlock()
	result := make(chan bool)
	go func() {
		v, err := Decide(context.Background(), configOf(api, dir))
		result <- err == nil && v.Bootstrap
	}()
	<-refused
	<-refused
	mu.Lock()
	away = false
	mu.Unlock()
	require.True(t, <-result)
}

func TestS167_TwoRaceAtARealAPIServer(t *testing.T) {
	api := apitest.Client(t, apitest.Start(t))
	for _, name := range []string{"ns", "again"} {
		_, err := api.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
		dirs := []string{folder(t), folder(t), folder(t)}
		for range 2 {
			verdicts := make(chan bool, len(dirs))
			for _, dir := range dirs {
				c := configOf(api, dir)
				c.Namespace = name
				go func() {
					v, err := Decide(context.Background(), c)
					verdicts <- err == nil && v.Bootstrap
				}()
			}
			founders := 0
			for range dirs {
				if <-verdicts {
					founders++
				}
			}
			require.Equal(t, 1, founders)
		}
		of, err := api.CoreV1().ConfigMaps(name).Get(t.Context(), "holdfast-cluster", metav1.GetOptions{})
		require.NoError(t, err)
		of.Data["founder"] = "another"
		_, err = api.CoreV1().ConfigMaps(name).Update(t.Context(), of, metav1.UpdateOptions{})
		require.ErrorContains(t, err, "immutable")
	}
}
