package scratch

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listed is an object with the labels of a run.
type listed struct {
	Object

	meta metav1.Object
}

// list lists what has the cluster's label in a namespace, or in all.
func (p *Pods) list(ctx context.Context, namespace string) (all []listed, err error) {
	pods, err := p.API.CoreV1().Pods(namespace).List(ctx, p.ofCluster())
	if err != nil {
		return nil, fmt.Errorf("list scratch pods: %w", err)
	}
	claims, err := p.API.CoreV1().PersistentVolumeClaims(namespace).List(ctx, p.ofCluster())
	if err != nil {
		return nil, fmt.Errorf("list scratch claims: %w", err)
	}
	for i := range pods.Items {
		all = append(all, listed{podObject(&pods.Items[i]), &pods.Items[i]})
	}
	for i := range claims.Items {
		all = append(all, listed{claimObject(&claims.Items[i]), &claims.Items[i]})
	}
	return all, nil
}

// Leftovers parts what has a run's labels, in all namespaces that may be listed, into what killed runs left and what is not touched, with
// the reason. What was made after a time may be of a run that is under way.
func (p *Pods) Leftovers(ctx context.Context, before time.Time) (left, others []string, err error) {
	all, err := p.list(ctx, metav1.NamespaceAll)
	if apierrors.IsForbidden(err) {
		all, err = p.list(ctx, p.Namespace)
	}
	if err != nil {
		return nil, nil, err
	}
	p.left = nil
	for _, one := range all {
		why, err := p.notOurs(ctx, one, before)
		if err != nil {
			return nil, nil, err
		}
		if why != "" {
			others = append(others, one.String()+" has the labels of a scratch one, and "+why)
			continue
		}
		p.left, left = append(p.left, one.Object), append(left, one.String())
	}
	return left, others, nil
}

// notOurs says why an object is not removed; empty: it is.
func (p *Pods) notOurs(ctx context.Context, one listed, before time.Time) (string, error) {
	switch made := one.meta.GetCreationTimestamp(); {
	case p.ownedBy(one.meta) == "":
		return "no name of its run", nil
	case made.After(before):
		return "its run made it on " + made.UTC().Format(time.RFC3339) + ", so that it may be under way", nil
	case !one.Claim:
		return "", nil
	}
	return p.usedByOthers(ctx, one.Object)
}

// usedByOthers says which pod uses a claim that no run made.
func (p *Pods) usedByOthers(ctx context.Context, claim Object) (string, error) {
	pods, err := p.API.CoreV1().Pods(claim.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list who uses %s: %w", claim, err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; p.ownedBy(pod) == "" && uses(pod, claim.Name) {
			return "pod " + pod.Name + " uses it: delete it by hand where nothing needs it", nil
		}
	}
	return "", nil
}

func uses(pod *corev1.Pod, claim string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}
