package authority

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/kube/apitest"
	"github.com/holdfast-storage/holdfast/kube/wait"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

var updateOptions = metav1.UpdateOptions{}

func configOf(t *testing.T, api kubernetes.Interface) Config {
	return Config{
		Client: api, Namespace: "ns", Secret: "holdfast-ca", Bundle: "holdfast-ca-bundle", Cluster: "prod", Dir: filepath.Join(t.TempDir(), "ca"),
		Wait: wait.Loop{Log: slog.New(slog.DiscardHandler), Most: 10 * time.Millisecond},
	}
}

func pemIn(t *testing.T, c Config) string {
	t.Helper()
	require.NoError(t, Ensure(t.Context(), c))
	trust, err := pki.TrustOf(c.Dir)
	require.NoError(t, err)
	require.Equal(t, "prod", trust.Cluster)
	info, err := os.Stat(filepath.Join(c.Dir, "ca.key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	return string(trust.PEM())
}

func bundleOf(f *apitest.Fake) any {
	return f.Object("configmaps/holdfast-ca-bundle")["data"].(map[string]any)["ca.crt"]
}

// All controllers have one CA, whichever was first and however far it came.
func TestACAIsMadeOnce(t *testing.T) {
	for _, step := range []string{"", "after POST /api/v1/namespaces/ns/secrets", "before POST /api/v1/namespaces/ns/configmaps", "after POST /api/v1/namespaces/ns/configmaps"} {
		t.Run(step, func(t *testing.T) {
			var f apitest.Fake
			api := f.Serve(t)
			one, two := configOf(t, api), configOf(t, api)
			ctx, cancel := context.WithCancel(t.Context())
			at := func(when string) func(string) bool {
				return func(request string) bool {
					if step != "" && strings.HasPrefix(when+" "+request, step) {
						cancel()
					}
					return ctx.Err() == nil
				}
			}
			f.Before, f.After = at("before"), at("after")
			err := Ensure(ctx, one)
			require.Equal(t, step == "", err == nil)
			cancel()
			f.Before, f.After = nil, nil
			for range 2 {
				require.Equal(t, pemIn(t, two), pemIn(t, one))
				require.Equal(t, pemIn(t, one), bundleOf(&f))
			}
			require.NotContains(t, bundleOf(&f), "PRIVATE KEY")
		})
	}
}

// A CA that an operator put there, or rotates, is taken up, and published.
func TestACAIsRotated(t *testing.T) {
	var f apitest.Fake
	api := f.Serve(t)
	c := configOf(t, api)
	first := pemIn(t, c)
	work := filepath.Join(t.TempDir(), "work")
	require.NoError(t, os.Mkdir(work, 0o700))
	for _, name := range caFiles {
		content, err := os.ReadFile(filepath.Join(c.Dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(work, name), content, 0o600))
	}
	for _, plan := range []func() (*pki.FilePlan, error){
		func() (*pki.FilePlan, error) { return pki.PlanRotate(work, nil) },
		func() (*pki.FilePlan, error) { return pki.PlanSwitch(work, nil, time.Hour) },
		func() (*pki.FilePlan, error) { return pki.PlanFinish(work, nil) },
	} {
		p, err := plan()
		require.NoError(t, err)
		require.NoError(t, p.CarryOut())
		put(t, c, work)
		want, err := pki.TrustOf(work)
		require.NoError(t, err)
		require.Equal(t, string(want.PEM()), pemIn(t, c))
		require.Equal(t, string(want.PEM()), bundleOf(&f))
	}
	require.NotEqual(t, first, pemIn(t, c))
}

// put replaces the Secret by a folder's files.
func put(t *testing.T, c Config, dir string) {
	t.Helper()
	secret, err := c.secret(t.Context(), true)
	require.NoError(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	secret.Data = map[string][]byte{}
	for _, e := range entries {
		secret.Data[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
	}
	_, err = c.Client.CoreV1().Secrets(c.Namespace).Update(t.Context(), secret, updateOptions)
	require.NoError(t, err)
}

// While nodes trust a CA whose key is gone, no other CA is made.
func TestNoOtherCAIsMadeBesideOneThatIsTrusted(t *testing.T) {
	var f apitest.Fake
	api := f.Serve(t)
	c := configOf(t, api)
	first := pemIn(t, c)
	secret := f.Object("secrets/holdfast-ca")
	f.Remove("secrets/holdfast-ca")
	other := configOf(t, api)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		said := other
		said.Wait = wait.Loop{Log: slog.New(&onWarning{slog.DiscardHandler, cancel}), Most: time.Hour}
		require.ErrorIs(t, Ensure(ctx, said), errKeyGone)
		require.Nil(t, f.Object("secrets/holdfast-ca"))
		require.NoFileExists(t, filepath.Join(other.Dir, "ca.key"))
	}
	require.NotNil(t, secret)
	f.Remove("configmaps/holdfast-ca-bundle")
	require.NotEqual(t, first, pemIn(t, other), "an operator gave the CA up")
}

// onWarning calls a function when something is said.
type onWarning struct {
	slog.Handler
	do func()
}

func (*onWarning) Enabled(context.Context, slog.Level) bool { return true }

func (h *onWarning) Handle(context.Context, slog.Record) error {
	h.do()
	return nil
}

func TestASecretThatIsNoCA(t *testing.T) {
	for name, change := range map[string]func(map[string][]byte){
		"another key's":      func(d map[string][]byte) { d["ca.key"] = []byte("nonsense") },
		"no certificate":     func(d map[string][]byte) { delete(d, "ca.crt") },
		"a path in its name": func(d map[string][]byte) { d["..secret"] = nil },
	} {
		t.Run(name, func(t *testing.T) {
			var f apitest.Fake
			c := configOf(t, f.Serve(t))
			_ = pemIn(t, c)
			secret, err := c.secret(t.Context(), true)
			require.NoError(t, err)
			change(secret.Data)
			_, err = c.Client.CoreV1().Secrets("ns").Update(t.Context(), secret, updateOptions)
			require.NoError(t, err)
			c.Dir = filepath.Join(t.TempDir(), "ca")
			for range 2 {
				require.ErrorContains(t, Ensure(t.Context(), c), "use the CA in Secret ns/holdfast-ca")
			}
		})
	}
	require.ErrorContains(t, Ensure(t.Context(), Config{Cluster: "No Name"}), "cluster name")
}
