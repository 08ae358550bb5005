package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/kube/client"
	"github.com/holdfast-storage/holdfast/kube/forward"
	"github.com/holdfast-storage/holdfast/kube/signin"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// apiPort is that of a controller's pod.
const apiPort = 9802

// controllerPods are the labels of the controllers' pods, as the chart sets them.
const controllerPods = "app.kubernetes.io/name=holdfast,app.kubernetes.io/component=controller"

// kubeConnection is how controllers that run in Kubernetes are reached with no more than a kubeconfig.
type kubeConnection struct {
	use       bool
	source    client.Source
	namespace string
	role      string
}

func (k *kubeConnection) addFlagsTo(flags *pflag.FlagSet) {
	flags.BoolVar(&k.use, "kube", false, "ask the controllers that run in Kubernetes, through its API server; kubectl holdfast does")
	flags.StringVar(&k.source.Kubeconfig, "kubeconfig", "", "`file` that says which Kubernetes, as kubectl has it; with --kube")
	flags.StringVar(&k.source.Context, "context", "", "`name` of the kubeconfig's context; with --kube")
	flags.StringVar(&k.namespace, "holdfast-namespace", "", "`namespace` of the controllers' pods; by default they are looked for in all; with --kube")
	flags.StringVar(&k.role, "as-role", string(pki.Admin), "`role` to ask as, viewer, operator or admin, where no certificate is given; with --kube")
}

// wanted tells whether the flags name a Kubernetes cluster.
func (k *kubeConnection) wanted() bool {
	return k.use || k.source.Kubeconfig != "" || k.source.Context != ""
}

// connect forwards the controllers' ports to this machine until ctx ends. Without a certificate in files it gets one by what
// Kubernetes lets the person do.
func (k *kubeConnection) connect(ctx context.Context, files pki.Files) ([]string, pki.Files, error) {
	// What fails of a forwarded connection is the error of the call that used it; that one was closed while it was read is none.
	client.LogTo(slog.New(slog.DiscardHandler))
	config, _, err := k.source.Config()
	if err != nil {
		return nil, files, exit.Wrap(exit.Usage, err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, files, exit.Wrap(exit.Usage, err)
	}
	pods, err := k.controllers(ctx, api)
	if err != nil {
		return nil, files, err
	}
	if files.Cert == "" {
		if files, err = k.signIn(ctx, api, config.Host, pods[0].Namespace); err != nil {
			return nil, files, err
		}
	}
	endpoints, err := forwardAll(ctx, config, pods)
	return endpoints, files, err
}

// signIn gets a certificate, and keeps it in a folder of this cluster, namespace and role for the next command.
func (k *kubeConnection) signIn(ctx context.Context, api kubernetes.Interface, host, namespace string) (pki.Files, error) {
	role := pki.Role(k.role)
	if role != pki.Viewer && role != pki.Operator && role != pki.Admin {
		return pki.Files{}, exit.Usagef("ask as %q: --as-role is viewer, operator or admin", k.role)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return pki.Files{}, exit.Usagef("find a folder for the certificate: %w", err)
	}
	dir := filepath.Join(base, "holdfast", signin.CacheName(host, namespace, k.role))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return pki.Files{}, exit.Usagef("make a folder for the certificate: %w", err)
	}
	files, err := signin.Certificate(ctx, api, signin.Request{Namespace: namespace, Role: role, Cache: dir}, time.Now())
	switch {
	case errors.Is(err, signin.ErrNotAllowed):
		return files, exit.Wrap(exit.Refused, err)
	case err != nil:
		return files, exit.Wrap(exit.Unavailable, err)
	}
	return files, nil
}

// controllers are the running pods; those of two clusters are not mixed.
func (k *kubeConnection) controllers(ctx context.Context, api kubernetes.Interface) (running []corev1.Pod, err error) {
	list, err := api.CoreV1().Pods(k.namespace).List(ctx, metav1.ListOptions{LabelSelector: controllerPods})
	if err != nil {
		return nil, exit.Unavailablef("find the controllers' pods: %w", err)
	}
	for _, pod := range list.Items {
		if pod.Namespace != list.Items[0].Namespace {
			return nil, exit.Usagef("controllers run in the namespaces %s and %s: choose one with --holdfast-namespace", list.Items[0].Namespace, pod.Namespace)
		}
		if pod.Status.Phase == corev1.PodRunning {
			running = append(running, pod)
		}
	}
	if len(running) == 0 {
		return nil, exit.Unavailablef("find the controllers' pods: none of %d runs in %s", len(list.Items), cmp.Or(k.namespace, "any namespace"))
	}
	return running, nil
}

// forwardAll forwards what it can: a pod whose node is away is passed over while another can be reached.
func forwardAll(ctx context.Context, config *rest.Config, pods []corev1.Pod) (apis []string, err error) {
	for _, pod := range pods {
		addresses, failed := forward.Open(ctx, config, forward.Pod{Namespace: pod.Namespace, Name: pod.Name, Ports: []uint16{apiPort}})
		if failed != nil {
			err = failed
			continue
		}
		apis = append(apis, addresses...)
	}
	if len(apis) == 0 {
		return nil, exit.Wrap(exit.Unavailable, err)
	}
	return apis, nil
}
