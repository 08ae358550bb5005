// Package kit is what stories do to a cluster: objects from manifests, waits for what they become, and the real kubectl and helm.
package kit

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// Kit is of one namespace of a cluster.
type Kit struct {
	Cluster   cluster.Config
	Namespace string
	Client    kubernetes.Interface
	dynamic   dynamic.Interface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
}

// New is a kit for the default namespace, for a process in the cluster's network.
func New(c cluster.Config) (*Kit, error) {
	rest, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig("admin"))
	if err != nil {
		return nil, err
	}
	rest.QPS, rest.Burst = 500, 1000
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, err
	}
	any, err := dynamic.NewForConfig(rest)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	return &Kit{Cluster: c, Namespace: metav1.NamespaceDefault, Client: client, dynamic: any, mapper: mapper}, nil
}

// In is the kit for another namespace.
func (k *Kit) In(namespace string) *Kit {
	other := *k
	other.Namespace = namespace
	return &other
}

// of is the client of a resource, as volumesnapshots or storageclasses.storage.k8s.io, in this namespace where it has one.
func (k *Kit) of(resource string) (dynamic.ResourceInterface, error) {
	group := schema.ParseGroupResource(resource)
	found, err := k.mapper.ResourceFor(group.WithVersion(""))
	if meta.IsNoMatchError(err) {
		k.mapper.Reset()
		found, err = k.mapper.ResourceFor(group.WithVersion(""))
	}
	if err != nil {
		return nil, fmt.Errorf("the cluster has no %s: %w", resource, err)
	}
	kind, err := k.mapper.KindFor(found)
	if err != nil {
		return nil, err
	}
	mapping, err := k.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	return k.in(mapping, k.Namespace), nil
}

func (k *Kit) in(m *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	if m.Scope.Name() == meta.RESTScopeNameRoot {
		return k.dynamic.Resource(m.Resource)
	}
	return k.dynamic.Resource(m.Resource).Namespace(namespace)
}

// Get reads one object.
func (k *Kit) Get(ctx context.Context, resource, name string) (*unstructured.Unstructured, error) {
	r, err := k.of(resource)
	if err != nil {
		return nil, err
	}
	return r.Get(ctx, name, metav1.GetOptions{})
}

// List reads all objects of a resource that a label selector matches; the empty one matches all.
func (k *Kit) List(ctx context.Context, resource, selector string) ([]unstructured.Unstructured, error) {
	r, err := k.of(resource)
	if err != nil {
		return nil, err
	}
	found, err := r.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return found.Items, nil
}

// Sleep waits, or returns why the context ended.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
