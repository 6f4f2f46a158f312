package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

const (
	defaultConcurrency  = 32
	defaultStartTimeout = 30 * time.Second
	defaultCloseTimeout = 25 * time.Second
	// The router waits a little longer than the subscriber, which knows what is
	// running and puts the rest back.
	closeMargin = time.Second
)

// Config of a service. The zero value works where the queues and their DLQs
// exist.
type Config struct {
	// Topics maps the topics of Handle to queues. Defaults to rabbit.Queues(): the
	// topic is the queue.
	Topics rabbit.Topics
	// Topology declares queues, DLQs and retry queues that are missing. Defaults to
	// nil: nothing is declared.
	Topology *rabbit.Topology
	// Concurrency is how many messages of one queue are handled at once. With more
	// than one they overtake each other. Lowered to the number of connections that
	// the inbox's pool allows. Defaults to 32; with group commit to twice the group,
	// whatever the pool.
	Concurrency int
	// OrderBy names the lane of a message; messages of one lane are handled one
	// after the other. Defaults to nil: no lanes.
	OrderBy func(msg *message.Message) string
	// StartTimeout bounds what Run does before the first message: connecting,
	// declaring, registering. Defaults to 30 s.
	StartTimeout time.Duration
	// CloseTimeout is how long running handlers may take at the end. While the
	// broker answers, Run returns about a second later at the most: the default fits
	// into the 30 s that Kubernetes gives. Defaults to 25 s.
	CloseTimeout time.Duration
	// Stack has the key rule, attempts and bounds. Its Delayer, Delays and
	// DeadLetterTopic follow the Topology unless they are given.
	Stack middleware.StackConfig
	// Connection has the name, TLS and timeouts of the connection.
	Connection rabbit.ConnectionConfig
	// Logger takes what an operator should know. Defaults to nil: silent.
	Logger *slog.Logger
}

func (c Config) withDefaults(b *inbox.Inbox) (Config, error) {
	var errs []error
	if c.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("Concurrency is %d: must not be negative", c.Concurrency))
	}
	if c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
		if b != nil && b.GroupSize() > 1 {
			c.Concurrency = 2 * b.GroupSize() // one group runs, the next one gathers
		}
	}
	if c.StartTimeout < 0 {
		errs = append(errs, fmt.Errorf("StartTimeout is %s: must not be negative", c.StartTimeout))
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = defaultStartTimeout
	}
	if c.CloseTimeout < 0 {
		errs = append(errs, fmt.Errorf("CloseTimeout is %s: must not be negative", c.CloseTimeout))
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = defaultCloseTimeout
	}
	if c.Topics.Queue == nil {
		c.Topics = rabbit.Queues()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Stack.Logger == nil {
		c.Stack.Logger = c.Logger
	}
	if c.Connection.Logger == nil {
		c.Connection.Logger = newLogger(c.Logger)
	}
	return c, errors.Join(errs...)
}

// Router is one service: its consumers, its connection to the broker, and a
// publisher. It is built once and run once.
type Router struct {
	config   Config
	inbox    *inbox.Inbox
	conn     *rabbit.Connection
	pub      *rabbit.Publisher
	sub      *rabbit.Subscriber
	router   *message.Router
	handlers []handler
	ran      atomic.Bool
	running  atomic.Int64 // handlers
}

type handler struct {
	topic string
	fn    message.NoPublishHandlerFunc
}

// New checks the configuration; its errors name the fields. Nothing is dialled
// before Run.
func New(url string, b *inbox.Inbox, c Config) (*Router, error) {
	c, err := c.withDefaults(b)
	errs := []error{err}
	if b == nil {
		errs = append(errs, errors.New("inbox is nil: open one first, for instance with pginbox.Open"))
	} else if n := b.MaxConnections(); n > 0 && n < c.Concurrency {
		c.Logger.Warn("concurrency lowered to the connections of the pool: raise db.SetMaxOpenConns (and SetMaxIdleConns with it), or MaxConns of a pgxpool",
			"concurrency", c.Concurrency, "connections", n)
		c.Concurrency = n
	} else if b.GroupSize() > 1 && c.Concurrency == 1 {
		c.Logger.Warn("group commit is on, but one message is handed out at a time, so that every group is of one: leave Concurrency out, or raise it to twice the group",
			"group", b.GroupSize())
	}
	r := &Router{config: c, inbox: b}
	r.conn, err = rabbit.NewConnection(url, c.Connection)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new router: %w", err)
	}
	logger := c.Connection.Logger
	r.pub, err = rabbit.NewPublisher(r.conn, rabbit.PublisherConfig{Topics: c.Topics, Topology: c.Topology, Logger: logger})
	errs = append(errs, err)
	r.sub, err = rabbit.NewSubscriber(r.conn, rabbit.SubscriberConfig{
		Topics: c.Topics, Topology: c.Topology, Concurrency: c.Concurrency, OrderBy: c.OrderBy,
		StartTimeout: c.StartTimeout, CloseTimeout: c.CloseTimeout, Logger: logger,
	})
	errs = append(errs, err)
	r.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: c.CloseTimeout + closeMargin}, logger)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new router: %w", errors.Join(err, r.conn.Close()))
	}
	r.router.AddMiddleware(r.counted)
	return r, nil
}

// counted is the outermost middleware: at the end Watermill tells only that some
// handler has not returned.
func (r *Router) counted(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		r.running.Add(1)
		defer r.running.Add(-1)
		return h(msg)
	}
}

// Handle sets the handler of a topic's queue. The consumer's name is the queue
// (unless Config.Stack names it). It must be called before Run; a second handler
// for a queue is an error, since the two would share its messages by chance.
func (r *Router) Handle(topic string, h message.NoPublishHandlerFunc) error {
	if h == nil {
		return fmt.Errorf("handle %q: the handler is nil", topic)
	}
	queue := r.config.Topics.Queue(topic)
	for _, other := range r.handlers {
		if r.config.Topics.Queue(other.topic) == queue {
			return fmt.Errorf("handle %q: queue %q has a handler already: one handler a queue, or they share its messages by chance", topic, queue)
		}
	}
	r.handlers = append(r.handlers, handler{topic, h})
	return nil
}

// Publisher publishes confirmed messages by the same topics. It lives as long as
// Run.
func (r *Router) Publisher() *rabbit.Publisher { return r.pub.Shared() }

// Watermill gives Watermill's router, for middleware of your own around ours
// (metrics, tracing) and for handlers on other transports. Middleware that
// retries or poisons has no place here: the stack settles every message.
func (r *Router) Watermill() *message.Router { return r.router }

// Run checks the queues, registers the consumers, and handles messages until ctx
// ends; then handlers finish within CloseTimeout, and what was not begun goes
// back. It returns nil when ctx has ended, also before or during the start; an
// error when it could not start, and when handlers were still running after
// CloseTimeout: their messages are delivered again, and what they commit after
// all is recognised then. A Router runs once: a second Run is an error and leaves
// the first alone.
func (r *Router) Run(ctx context.Context) error {
	if r.ran.Swap(true) {
		return errors.New("run: this router runs or has run already: build a new one with New")
	}
	closeRouter := sync.OnceValue(r.router.Close)
	err := r.start(ctx)
	switch {
	case err == nil:
		// At once: by itself Watermill's router begins its wait for handlers when the
		// subscriber's is over.
		defer context.AfterFunc(ctx, func() { _ = closeRouter() })()
		err = r.router.Run(ctx)
	case ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err())):
		r.config.Logger.Info("ended before it was ready", "err", err)
		err = nil
	}
	closing := errors.Join(closeRouter(), r.sub.Close())
	if n := r.running.Load(); n > 0 {
		closing = fmt.Errorf("run: handlers did not return within the CloseTimeout of %s (still running: %d): their messages are delivered again; let handlers end sooner, or raise CloseTimeout, and with it the time after which the process is killed", r.config.CloseTimeout, n)
	}
	return errors.Join(err, closing, r.pub.Close(), r.conn.Close())
}

func (r *Router) start(ctx context.Context) error {
	if len(r.handlers) == 0 {
		return errors.New("run: there is no handler: call Handle first")
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, r.config.StartTimeout, fmt.Errorf("not ready within the StartTimeout of %s", r.config.StartTimeout))
	defer cancel()
	for _, h := range r.handlers {
		err := r.initialize(ctx, h.topic)
		if err == nil {
			err = r.prepare(limited, h)
		}
		if err != nil {
			return fmt.Errorf("run: handler of %q: %w", h.topic, err)
		}
	}
	return nil
}

// prepare makes sure that everything a message may need is there before the
// first one comes.
func (r *Router) prepare(ctx context.Context, h handler) error {
	queue := r.config.Topics.Queue(h.topic)
	c := r.config.Stack
	if c.DeadLetterTopic == nil {
		c.DeadLetterTopic = rabbit.DeadLetterQueue
		if r.config.Topology != nil && r.config.Topology.DeadLetterQueue != nil {
			c.DeadLetterTopic = r.config.Topology.DeadLetterQueue
		}
	}
	if err := r.conn.FindQueue(ctx, c.DeadLetterTopic(queue)); err != nil {
		return fmt.Errorf("letters need a queue to go to: create it, or set Topology to have it declared: %w", err)
	}
	if err := r.delay(ctx, queue, &c); err != nil {
		return err
	}
	stack, err := middleware.NewStack(r.inbox, r.pub.ToQueues(), c)
	if err != nil {
		return err
	}
	if err := stack.Register(ctx, queue); err != nil {
		return err
	}
	r.router.AddConsumerHandler(queue, h.topic, r.sub, h.fn).AddMiddleware(stack.Middleware)
	return nil
}

// initialize looks for the queue of a topic, or declares it, within
// StartTimeout. Watermill's method takes no context; when ctx ends first, Run
// closes what it waits for.
func (r *Router) initialize(ctx context.Context, topic string) error {
	done := make(chan error, 1)
	go func() { done <- r.sub.SubscribeInitialize(topic) }() //nolint:contextcheck // it takes none
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// delay turns delayed retry on where the retry queues exist.
func (r *Router) delay(ctx context.Context, queue string, c *middleware.StackConfig) error {
	if c.Delayer != nil {
		return nil
	}
	dc := rabbit.DelayerConfig{Steps: c.Delays}
	if t := r.config.Topology; t != nil {
		if t.RetrySteps != nil && len(t.RetrySteps) == 0 {
			return nil // chosen
		}
		dc.RetryQueue = t.RetryQueue
		if c.Delays == nil {
			dc.Steps = t.RetrySteps
		}
	}
	delayer, err := rabbit.NewDelayer(r.pub, dc)
	if err != nil {
		return err
	}
	switch err := delayer.Check(ctx, queue); {
	case errors.Is(err, rabbit.ErrNoQueue):
		r.config.Logger.Warn("delayed retry is off: an error that does not heal in place makes a letter at once", "queue", queue, "err", err)
		c.Delays = nil
		return nil
	case err != nil:
		return err
	}
	c.Delayer = delayer
	if c.Delays == nil {
		c.Delays = dc.Steps // nil for the default ones
	}
	return nil
}
