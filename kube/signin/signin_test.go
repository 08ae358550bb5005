package signin

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

func TestTheKeyOfTheCAStaysNowhere(t *testing.T) {
	r := request(t)
	_, err := Certificate(t.Context(), server(t, "alice", nil), r, time.Now())
	require.NoError(t, err)
	left, err := filepath.Glob(filepath.Join(memory(r.Cache), ".holdfast-ca-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	kept, err := os.ReadDir(r.Cache)
	require.NoError(t, err)
	require.Len(t, kept, 3) // certificate, key and the CA's certificate
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

func TestASecretThatWouldWriteElsewhere(t *testing.T) {
	_, err := issue(map[string][]byte{"../ca.crt": nil}, request(t), "alice", false)
	require.ErrorContains(t, err, "no name of a file")
}
