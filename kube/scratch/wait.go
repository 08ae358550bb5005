package scratch

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// start makes a pod and waits until it is in a phase, and says meanwhile what it waits for.
func (p *Pods) start(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) (*corev1.Pod, error) {
	// A request that is given up may still be carried out, when what the run made was removed.
	if _, err := p.API.CoreV1().Pods(p.Namespace).Create(context.WithoutCancel(ctx), pod, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	said, begun := "", time.Now()
	for {
		now, err := p.API.CoreV1().Pods(p.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case err == nil && now.Status.Phase == phase:
			return now, nil
		case err == nil && (now.Status.Phase == corev1.PodFailed || now.Status.Phase == corev1.PodSucceeded):
			return nil, fmt.Errorf("pod %s ended: %s", pod.Name, reason(now))
		case err == nil:
			err = fmt.Errorf("%s", reason(now))
		}
		if time.Since(begun) > p.Patience {
			return nil, fmt.Errorf("pod %s is not %s after %s: %w: see `kubectl holdfast why -n %s %s`", pod.Name, phase, p.Patience, err, p.Namespace, pod.Name)
		}
		if said != err.Error() && time.Since(begun) > 5*p.Pause {
			said = err.Error()
			p.Progress("pod %s waits: %s", pod.Name, said)
		}
		if err := sleep(ctx, p.Pause); err != nil {
			return nil, err
		}
	}
}

// reason says what a pod waits for, or why it ended.
func reason(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if ended := c.State.Terminated; ended != nil {
			return orPhase(pod, fmt.Sprintf("%s, exit code %d", ended.Reason, ended.ExitCode), ended.Message)
		}
		if waits := c.State.Waiting; waits != nil {
			return orPhase(pod, waits.Reason, waits.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return orPhase(pod, c.Reason, c.Message)
		}
	}
	return orPhase(pod, pod.Status.Reason, pod.Status.Message)
}

func orPhase(pod *corev1.Pod, parts ...string) string {
	var said []string
	for _, part := range parts {
		if part = strings.TrimSpace(part); part != "" {
			said = append(said, part)
		}
	}
	if len(said) == 0 {
		return string(pod.Status.Phase)
	}
	return strings.Join(said, ": ")
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
