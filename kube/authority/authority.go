// Package authority keeps the CA of a cluster as a Secret of Kubernetes, and publishes whom it is to be trusted by.
//
// The CA is made once, by whichever controller is first: the creation of the Secret is the test and set. Its key reaches
// controllers only. The ConfigMap with the certificates of the CA holds no secret: nodes verify controllers by it before they
// send them a token.
package authority

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/kube/wait"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// BundleKey is the key of the ConfigMap's certificates.
const BundleKey = "ca.crt"

// caFiles are the files of a CA that was just made.
var caFiles = []string{"ca.crt", "ca.key"}

// Config says where the CA is.
type Config struct {
	Client         kubernetes.Interface
	Namespace      string
	Secret, Bundle string // the names of the Secret and of the ConfigMap
	Cluster        string // the name in the certificates of a CA that is made
	Dir            string // the folder that gets the CA with its key, 0700
	Wait           wait.Loop
}

// errKeyGone: nodes trust a CA whose key is gone. Another one would be trusted by none of them.
var errKeyGone = errors.New("the Secret with the CA's key is gone, and nodes trust that CA: put the Secret back from a copy; or remove the ConfigMap, so that another CA is made, and restart the controllers: then every node enrols again")

// Ensure has the CA in the folder, and its certificates in the ConfigMap. It waits for the API server. An error is one of the CA that
// is in the Secret, or of the folder, or that ctx ended.
func Ensure(ctx context.Context, c Config) error {
	if err := (pki.Identity{Cluster: c.Cluster, Role: pki.Controller, Name: "x"}).Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("make the CA's folder: %w", err)
	}
	return c.Wait.Until(ctx, c.try)
}

// try reads the ConfigMap before the Secret, so that it never puts an older CA's certificates over a newer one's.
func (c Config) try(ctx context.Context) error {
	bundle, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, c.Bundle, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		bundle, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("read ConfigMap %s/%s with the CA's certificates: %w", c.Namespace, c.Bundle, err)
	}
	secret, err := c.secret(ctx, bundle != nil)
	if err != nil {
		return fmt.Errorf("read Secret %s/%s with the CA: %w", c.Namespace, c.Secret, err)
	}
	trust, err := c.write(secret.Data)
	if err != nil {
		return wait.Stop(fmt.Errorf("use the CA in Secret %s/%s: %w", c.Namespace, c.Secret, err))
	}
	if err := c.publish(ctx, bundle, trust); err != nil {
		return fmt.Errorf("publish the CA's certificates as ConfigMap %s/%s: %w", c.Namespace, c.Bundle, err)
	}
	return nil
}

// secret reads the Secret, and makes it with a new CA where it is not there and nobody trusts one.
func (c Config) secret(ctx context.Context, trusted bool) (*corev1.Secret, error) {
	secret, err := c.Client.CoreV1().Secrets(c.Namespace).Get(ctx, c.Secret, metav1.GetOptions{})
	switch {
	case !apierrors.IsNotFound(err):
		return secret, err
	case trusted:
		return nil, errKeyGone
	}
	data, err := c.makeCA()
	if err != nil {
		return nil, err
	}
	c.Wait.Log.Info("the cluster has no CA yet: one is made", "secret", c.Namespace+"/"+c.Secret, "cluster", c.Cluster)
	secret, err = c.Client.CoreV1().Secrets(c.Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: c.Secret, Namespace: c.Namespace, Labels: labels},
		Type:       corev1.SecretTypeOpaque, Data: data,
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // another controller was first
		return c.Client.CoreV1().Secrets(c.Namespace).Get(ctx, c.Secret, metav1.GetOptions{})
	}
	return secret, err
}

var labels = map[string]string{"app.kubernetes.io/name": "holdfast", "app.kubernetes.io/managed-by": "holdfast"}

// makeCA makes a CA that nobody has yet. Where another controller was first it is forgotten.
func (c Config) makeCA() (data map[string][]byte, err error) {
	dir, err := os.MkdirTemp(c.Dir, ".new-ca-")
	if err != nil {
		return nil, fmt.Errorf("make a CA: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := pki.MakeCA(dir, c.Cluster); err != nil {
		return nil, err
	}
	data = map[string][]byte{}
	for _, name := range caFiles {
		if data[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// fileName are the names of a CA's files, those of one that is being replaced too.
var fileName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`)

// write puts the Secret's files into the folder, and returns the CAs that it names.
func (c Config) write(data map[string][]byte) (*pki.Trust, error) {
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if !fileName.MatchString(name) {
			return nil, fmt.Errorf("%q is no name of a file of a CA", name)
		}
		if err := durablefile.Write(filepath.Join(c.Dir, name), data[name], 0o600); err != nil {
			return nil, err
		}
	}
	return pki.TrustOf(c.Dir)
}

// publish has the ConfigMap name the CAs that the Secret names.
func (c Config) publish(ctx context.Context, known *corev1.ConfigMap, trust *pki.Trust) error {
	published, text := c.Client.CoreV1().ConfigMaps(c.Namespace), string(trust.PEM())
	if known == nil {
		_, err := published.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: c.Bundle, Namespace: c.Namespace, Labels: labels}, Data: map[string]string{BundleKey: text},
		}, metav1.CreateOptions{})
		return err
	}
	if known.Data[BundleKey] == text {
		return nil
	}
	next := known.DeepCopy()
	next.Data = map[string]string{BundleKey: text}
	_, err := published.Update(ctx, next, metav1.UpdateOptions{})
	return err
}
