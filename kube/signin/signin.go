// Package signin gets a person a certificate for the operators' API by what Kubernetes lets that person do: who may read the
// Secret with the cluster's CA may ask as anybody, and gets a certificate that is good for an hour, with the name that
// Kubernetes knows the person by. Who may not needs a certificate of an operator's, from `holdfast ca issue`.
package signin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// Secret is the name of the Secret with the CA.
const Secret = "holdfast-ca"

const (
	// validity is how long a certificate is good: a revocation of the right to read the Secret is felt after that.
	validity = time.Hour
	// margin is how long a cached certificate has to be good yet.
	margin = 5 * time.Minute
)

// ErrNotAllowed is wrapped by errors of a person whom Kubernetes does not let read the Secret, or where there is none.
var ErrNotAllowed = errors.New("Kubernetes gives no certificate for this cluster")

// Request says for what a certificate is.
type Request struct {
	Namespace string   // of the Secret
	Role      pki.Role // Viewer, Operator or Admin
	Cache     string   // a folder, 0700, of this cluster and role; its certificate is used while it is good
}

// Certificate answers the files of one that is good for some minutes at least, by the CA that signs now, and with the CAs that are
// trusted now: the CA may have been replaced since the last command, and the cluster too. Where the Secret cannot be read, one that is
// good yet is used.
func Certificate(ctx context.Context, api kubernetes.Interface, r Request, now time.Time) (pki.Files, error) {
	name, err := personName(ctx, api)
	if err != nil {
		return pki.Files{}, err
	}
	files := pki.FilesIn(r.Cache, r.Role, name)
	good := isGood(files, now)
	secret, err := api.CoreV1().Secrets(r.Namespace).Get(ctx, Secret, metav1.GetOptions{})
	switch {
	case err != nil && good:
		return files, nil
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
		return pki.Files{}, fmt.Errorf("%w: read Secret %s/%s with its CA: %w; give a certificate of your own with --cert, --key and --ca, which `holdfast ca issue` makes", ErrNotAllowed, r.Namespace, Secret, err)
	case err != nil:
		return pki.Files{}, fmt.Errorf("read Secret %s/%s with the CA: %w", r.Namespace, Secret, err)
	}
	return issue(secret.Data, r, "Secret "+r.Namespace+"/"+Secret, name, now)
}

// issue signs with the CA, whose key is in memory alone: wherever this is killed, it is in no file. A good certificate that this CA
// signed stays. Commands that ask at the same moment wait for each other: a key of one and a certificate of the other are no pair.
func issue(ca map[string][]byte, r Request, where, name string, now time.Time) (files pki.Files, err error) {
	unlock, err := lockCache(r.Cache)
	if err != nil {
		return files, err
	}
	defer unlock()
	authority, err := pki.ParseAuthority(where, ca["ca.crt"], ca["ca.key"])
	if err != nil {
		return files, err
	}
	trust := authority.Trust()
	files = pki.FilesIn(r.Cache, r.Role, name)
	if isGood(files, now) && trust.SignsFirst(files.Cert) {
		if err := trust.WriteTo(files.CA); err != nil {
			return files, err
		}
		if _, err := pki.Load(files); err == nil {
			return files, nil
		} // the key is another's, or gone
	}
	if files, err = authority.Issue(r.Cache, pki.Identity{Role: r.Role, Name: name}, validity); err != nil {
		return files, err
	}
	return files, trust.WriteTo(files.CA)
}

// isGood tells whether a certificate will be good for some minutes.
func isGood(files pki.Files, now time.Time) bool {
	have, ok, err := pki.Installed(files.Cert)
	return err == nil && ok && now.Add(margin).Before(have.NotAfter)
}

// lockCache keeps others out of the folder, which has to be this user's own: whoever else can write there chooses as whom is asked.
func lockCache(dir string) (unlock func(), err error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the folder %s for the certificate: %w", dir, err)
	}
	unlock = func() { _ = unix.Close(fd) }
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && int(st.Uid) != os.Geteuid() {
		err = fmt.Errorf("it is user %d's: name one of your own with XDG_CACHE_HOME", st.Uid)
	}
	if err == nil {
		err = unix.Flock(fd, unix.LOCK_EX) // for as long as another command writes three files
	}
	if err != nil {
		unlock()
		return nil, fmt.Errorf("use the folder %s for the certificate: %w", dir, err)
	}
	return unlock, nil
}

// personName is who Kubernetes says is asking, as a name in certificates can be.
func personName(ctx context.Context, api kubernetes.Interface) (string, error) {
	review, err := api.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask Kubernetes who this is: %w", err)
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, review.Status.UserInfo.Username)
	return cmp.Or(strings.Trim(name[:min(len(name), 200)], "-."), "kubernetes"), nil
}

// CacheName names the folder of certificates of one cluster, asked for in one way.
func CacheName(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}
