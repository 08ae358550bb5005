package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

const (
	// restartTimeout is how long a controller's pod may take to be evicted and to be ready again.
	restartTimeout = 5 * time.Minute
	restartPause   = time.Second
)

// podRestarter restarts controllers whose pods have their names, as the chart's have.
type podRestarter struct {
	api       kubernetes.Interface
	namespace string
	pause     time.Duration
}

// restarter finds the controllers' pods.
func (k *kubeConnection) restarter(ctx context.Context) (*podRestarter, error) {
	config, _, err := k.source.Config()
	if err != nil {
		return nil, exit.Wrap(exit.Usage, err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, exit.Wrap(exit.Usage, err)
	}
	pods, err := k.controllers(ctx, api)
	if err != nil {
		return nil, err
	}
	return &podRestarter{api: api, namespace: pods[0].Namespace, pause: restartPause}, nil
}

// restart evicts a controller's pod, which no disruption budget may forbid, and waits until another one of its name is ready.
func (r *podRestarter) restart(ctx context.Context, controller string) error {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	pod, err := r.api.CoreV1().Pods(r.namespace).Get(ctx, controller, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("find its pod: %w", err)
	}
	if err := r.evict(ctx, pod); err != nil {
		return err
	}
	return r.awaitReady(ctx, controller, pod.UID)
}

// nodePods are the labels of the node plugins' pods, as the chart sets them.
const nodePods = "app.kubernetes.io/name=holdfast,app.kubernetes.io/component=node"

// pluginOn finds the pod of a host's node plugin; nil: there is none.
func (r *podRestarter) pluginOn(ctx context.Context, host string) (*corev1.Pod, error) {
	list, err := r.api.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: nodePods})
	if err != nil {
		return nil, fmt.Errorf("find its pod: %w", err)
	}
	for i := range list.Items {
		if pod := &list.Items[i]; pod.Spec.NodeName == host && pod.DeletionTimestamp == nil {
			return pod, nil
		}
	}
	return nil, nil
}

// restartPlugin evicts a host's node plugin, and waits until another one of the host is ready.
func (r *podRestarter) restartPlugin(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	former, err := r.pluginOn(ctx, host)
	if err == nil && former == nil {
		err = errors.New("no pod of it is on the host")
	}
	if err != nil {
		return err
	}
	if err := r.evict(ctx, former); err != nil {
		return err
	}
	for {
		now, err := r.pluginOn(ctx, host)
		if err == nil && now != nil && now.UID != former.UID && isReady(now) {
			return nil
		}
		if sleepContext(ctx, r.pause) != nil {
			return fmt.Errorf("its pod was evicted, and none is ready on host %s after %s: look at `kubectl -n %s get pods -o wide`", host, restartTimeout, r.namespace)
		}
	}
}

// evict asks again while a budget forbids it for now, as another controller may be on its way.
func (r *podRestarter) evict(ctx context.Context, pod *corev1.Pod) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}
	for {
		err := r.api.PolicyV1().Evictions(pod.Namespace).Evict(ctx, eviction)
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsTooManyRequests(err):
			return fmt.Errorf("evict its pod: %w", err)
		}
		if sleepContext(ctx, r.pause) != nil {
			return fmt.Errorf("evict its pod: %w", err)
		}
	}
}

// awaitReady waits for a pod of the name that is not that one.
func (r *podRestarter) awaitReady(ctx context.Context, name string, former types.UID) error {
	for {
		pod, err := r.api.CoreV1().Pods(r.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && pod.UID != former && isReady(pod) {
			return nil
		}
		if sleepContext(ctx, r.pause) != nil {
			return fmt.Errorf("its pod was evicted, and none of its name is ready after %s: look at `kubectl -n %s describe pod %s`", restartTimeout, r.namespace, name)
		}
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
