package signin

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// server is an API server that knows the person as username and has the CA, unless secretError is what it answers for that.
func server(t *testing.T, username string, secretError error) *fake.Clientset {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, pki.MakeCA(filepath.Join(dir, "ca"), "prod"))
	data := map[string][]byte{}
	for _, name := range []string{"ca.crt", "ca.key"} {
		content, err := os.ReadFile(filepath.Join(dir, "ca", name))
		require.NoError(t, err)
		data[name] = content
	}
	api := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast", Name: Secret}, Data: data})
	api.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: username}}}, nil
	})
	api.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return secretError != nil, nil, secretError })
	return api
}

func request(t *testing.T) Request {
	t.Helper()
	cache := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.Mkdir(cache, 0o700))
	return Request{Namespace: "holdfast", Role: pki.Viewer, Cache: cache}
}

func TestAPersonGetsACertificateOfItsName(t *testing.T) {
	r, now := request(t), time.Now()
	files, err := Certificate(t.Context(), server(t, "alice@example.com", nil), r, now)
	require.NoError(t, err)
	_, err = pki.Load(files)
	require.NoError(t, err)
	cert, ok, err := pki.Installed(files.Cert)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, pki.Identity{Cluster: "prod", Role: pki.Viewer, Name: "alice-example.com"}, cert.Identity)
	require.WithinDuration(t, now.Add(validity), cert.NotAfter, time.Minute)
}

func TestACertificateIsUsedWhileItIsGood(t *testing.T) {
	r, now := request(t), time.Now()
	first, err := Certificate(t.Context(), server(t, "alice", nil), r, now)
	require.NoError(t, err)
	denied := apierrors.NewForbidden(corev1.Resource("secrets"), Secret, nil)
	again, err := Certificate(t.Context(), server(t, "alice", denied), r, now)
	require.NoError(t, err)
	require.Equal(t, first, again)
	_, err = Certificate(t.Context(), server(t, "alice", denied), r, now.Add(validity-margin))
	require.ErrorIs(t, err, ErrNotAllowed)
}

func TestACertificateIsUsedOnceMoreWhileItsCASigns(t *testing.T) {
	r, now, api := request(t), time.Now(), server(t, "alice", nil)
	first, err := Certificate(t.Context(), api, r, now)
	require.NoError(t, err)
	serial := serialOf(t, first)
	again, err := Certificate(t.Context(), api, r, now)
	require.NoError(t, err)
	require.Equal(t, serial, serialOf(t, again))
}

// TestTheCAWasReplacedSince: by a rotation, or with the cluster. Controllers refuse the old certificate, and the old bundle refuses them.
func TestTheCAWasReplacedSince(t *testing.T) {
	r, now := request(t), time.Now()
	first, err := Certificate(t.Context(), server(t, "alice", nil), r, now)
	require.NoError(t, err)
	serial := serialOf(t, first)
	for range 2 { // and once more
		other := server(t, "alice", nil)
		files, err := Certificate(t.Context(), other, r, now)
		require.NoError(t, err)
		require.NotEqual(t, serial, serialOf(t, files))
		serial = serialOf(t, files)
		_, err = pki.Load(files)
		require.NoError(t, err)
		secret, err := other.CoreV1().Secrets("holdfast").Get(t.Context(), Secret, metav1.GetOptions{})
		require.NoError(t, err)
		trusted, err := os.ReadFile(files.CA)
		require.NoError(t, err)
		require.Equal(t, string(secret.Data["ca.crt"]), string(trusted), "the old CA is not trusted any more")
	}
}

func serialOf(t *testing.T, files pki.Files) string {
	t.Helper()
	have, ok, err := pki.Installed(files.Cert)
	require.NoError(t, err)
	require.True(t, ok)
	return have.Serial
}

// created are the names of files that were made in folders while do ran.
func created(t *testing.T, do func(), folders ...string) (names []string) {
	t.Helper()
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(watch)) }()
	for _, folder := range folders {
		_, err := unix.InotifyAddWatch(watch, folder, unix.IN_CREATE|unix.IN_MOVED_TO)
		require.NoError(t, err)
	}
	do()
	buffer := make([]byte, 1<<16)
	for {
		n, err := unix.Read(watch, buffer)
		if errors.Is(err, unix.EAGAIN) {
			return names
		}
		require.NoError(t, err)
		for at := 0; at < n; {
			length := int(binary.NativeEndian.Uint32(buffer[at+12:]))
			names = append(names, strings.TrimRight(string(buffer[at+unix.SizeofInotifyEvent:at+unix.SizeofInotifyEvent+length]), "\x00"))
			at += unix.SizeofInotifyEvent + length
		}
	}
}

// TestTheKeyOfTheCAIsInNoFile: whenever the command is killed, none has it.
func TestTheKeyOfTheCAIsInNoFile(t *testing.T) {
	r := request(t)
	names := created(t, func() {
		_, err := Certificate(t.Context(), server(t, "alice", nil), r, time.Now())
		require.NoError(t, err)
	}, "/dev/shm", os.TempDir(), r.Cache)
	require.Contains(t, names, "viewer-alice.key")
	for _, name := range names {
		require.False(t, name == "ca.key" || strings.Contains(name, "holdfast-ca"), name)
	}
	kept, err := os.ReadDir(r.Cache)
	require.NoError(t, err)
	require.Len(t, kept, 3) // certificate, key and the CA's certificate
}

// TestAKeyThatIsAnothersIsReplaced: files of which one was lost or changed are no reason to fail until the certificate ends.
func TestAKeyThatIsAnothersIsReplaced(t *testing.T) {
	api := server(t, "alice", nil)
	for name, spoil := range map[string]func(pki.Files) error{
		"it is gone":         func(f pki.Files) error { return os.Remove(f.Key) },
		"half of it":         func(f pki.Files) error { return os.Truncate(f.Key, 20) },
		"others may read it": func(f pki.Files) error { return os.Chmod(f.Key, 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t)
			files, err := Certificate(t.Context(), api, r, time.Now())
			require.NoError(t, err)
			require.NoError(t, spoil(files))
			for range 2 {
				files, err = Certificate(t.Context(), api, r, time.Now())
				require.NoError(t, err)
				_, err = pki.Load(files)
				require.NoError(t, err)
			}
		})
	}
}

// TestCommandsAtTheSameMomentLeaveAPair: a certificate of one and a key of the other would be none.
func TestCommandsAtTheSameMomentLeaveAPair(t *testing.T) {
	r, api := request(t), server(t, "alice", nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			files, err := Certificate(t.Context(), api, r, time.Now())
			if assert.NoError(t, err) {
				_, err = pki.Load(files)
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
}

// TestACacheOfSomebodyElse: whoever can write there would choose as whom is asked.
func TestACacheOfSomebodyElse(t *testing.T) {
	real := request(t)
	link := real
	link.Cache = filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(real.Cache, link.Cache))
	others := request(t)
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(others.Cache, 12345, 12345))
	} else {
		others = link
	}
	for _, r := range []Request{link, others} {
		for range 2 {
			_, err := Certificate(t.Context(), server(t, "alice", nil), r, time.Now())
			require.ErrorContains(t, err, r.Cache)
		}
		left, err := os.ReadDir(r.Cache)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

func TestAPersonWhoMayNotReadTheSecret(t *testing.T) {
	for _, denied := range []error{apierrors.NewForbidden(corev1.Resource("secrets"), Secret, nil), apierrors.NewNotFound(corev1.Resource("secrets"), Secret)} {
		_, err := Certificate(t.Context(), server(t, "bob", denied), request(t), time.Now())
		require.ErrorIs(t, err, ErrNotAllowed)
		require.ErrorContains(t, err, "--cert, --key and --ca")
	}
	_, err := Certificate(t.Context(), server(t, "bob", apierrors.NewServiceUnavailable("later")), request(t), time.Now())
	require.NotErrorIs(t, err, ErrNotAllowed)
}

// TestASecretThatIsNoCA: what is in it is not said.
func TestASecretThatIsNoCA(t *testing.T) {
	good, err := server(t, "alice", nil).CoreV1().Secrets("holdfast").Get(t.Context(), Secret, metav1.GetOptions{})
	require.NoError(t, err)
	for name, data := range map[string]map[string][]byte{
		"nothing":                    nil,
		"a file elsewhere":           {"../ca.crt": good.Data["ca.crt"], "../ca.key": good.Data["ca.key"]},
		"no key":                     {"ca.crt": good.Data["ca.crt"]},
		"a key for a certificate":    {"ca.crt": good.Data["ca.key"], "ca.key": good.Data["ca.key"]},
		"both in the wrong place":    {"ca.crt": good.Data["ca.key"], "ca.key": good.Data["ca.crt"]},
		"a key that was cut":         {"ca.crt": good.Data["ca.crt"], "ca.key": good.Data["ca.key"][:len(good.Data["ca.key"])/2]},
		"a text in place of the key": {"ca.crt": good.Data["ca.crt"], "ca.key": []byte("sesame")},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t)
			_, err := issue(data, r, "Secret holdfast/holdfast-ca", "alice", time.Now())
			require.ErrorContains(t, err, "Secret holdfast/holdfast-ca")
			require.NotContains(t, err.Error(), "sesame")
			for line := range strings.Lines(string(good.Data["ca.key"])) {
				require.NotContains(t, err.Error(), strings.TrimSpace(line)[:min(20, len(strings.TrimSpace(line)))])
			}
			left, err := os.ReadDir(r.Cache)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}
