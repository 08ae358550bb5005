// Package client connects to a Kubernetes API server, from inside a pod or with a person's kubeconfig.
package client

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// requestTimeout bounds each request: an API server that does not answer must not hold up who asks. A watch ends with it and is
// begun again.
const requestTimeout = 30 * time.Second

// Source says which API server is meant, and as whom. The zero value is the pod that this process runs in, or else the
// kubeconfig that kubectl would use.
type Source struct {
	Kubeconfig string // path of a kubeconfig; empty: the pod's service account, else $KUBECONFIG, else ~/.kube/config
	Context    string // of the kubeconfig; empty: its current one
}

// Config is the connection's configuration, and the namespace that is meant where none is named.
func (s Source) Config() (config *rest.Config, namespace string, err error) {
	if s.Kubeconfig == "" && s.Context == "" {
		config, err = rest.InClusterConfig()
		if err == nil {
			namespace, err = podNamespace()
			return limited(config), namespace, err
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", fmt.Errorf("read this pod's service account: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.Kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: s.Context})
	if config, err = loaded.ClientConfig(); err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	if namespace, _, err = loaded.Namespace(); err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig's namespace: %w", err)
	}
	return limited(config), namespace, nil
}

// Connect is a client of the API server; nothing is sent yet.
func (s Source) Connect() (client kubernetes.Interface, namespace string, err error) {
	config, namespace, err := s.Config()
	if err != nil {
		return nil, "", err
	}
	client, err = kubernetes.NewForConfig(config)
	return client, namespace, err
}

func limited(config *rest.Config) *rest.Config {
	config.Timeout = requestTimeout
	config.UserAgent = "holdfast"
	return config
}
