/* libFuzzer: a program of operations, decoded from bytes, runs on the table and on the shadow (harness.h).
 *
 * The first two bytes choose how many of each hash's upper and lower bits differ at all: 0 and 0 make all hashes
 * equal, others make them share a directory entry, a home slot or a tag. Then an operation is one byte (which: modulo
 * 16; a small argument: the rest), and one or two bytes of argument. Operations on a range of keys make it possible to
 * reach splits and merges with a few bytes.
 *
 * Built with -DREPLAY it has a main of its own, which runs the files it is given: the corpus, where there is no clang. */
#include "harness.c"
#include <stdio.h>

enum { KEYS = 2048, WORK = 6000 /* operations on single keys, in one program: bounds the time */ };

typedef struct iteration {
    gob_page page;
    bool running;
    uint8_t steady[KEYS]; /* present since its beginning */
    uint8_t seen[KEYS];
} iteration;

typedef struct input {
    const uint8_t *at, *end;
} input;

static uint32_t byte(input *in) { return in->at < in->end ? *in->at++ : 0; }

static uint32_t key_argument(input *in) {
    uint32_t high = byte(in);
    return (high << 8 | byte(in)) % KEYS;
}

static void begin_iteration(const world *w, iteration *it) {
    uint32_t number;
    gob_page_free(&it->page);
    memset(it, 0, sizeof *it);
    it->running = true;
    for (number = 0; number < KEYS; number++)
        it->steady[number] = w->entries[number].present && w->entries[number].deadline == GOB_NO_DEADLINE;
}

static void next_page(world *w, iteration *it) {
    uint32_t i;
    uint64_t from = it->page.cursor;
    if (!it->running) begin_iteration(w, it);
    if (!gob_table_page(&w->table, w->now, &it->page)) {
        CHECK(memory.failed > 0 && it->page.cursor == from);
        return;
    }
    for (i = 0; i < it->page.count; i++) {
        const gob_item *item = &it->page.items[i];
        uint32_t number = key_number(it->page.keys + item->key_at, item->key_len);
        CHECK(number < KEYS && w->entries[number].present && w->entries[number].deadline > w->now);
        CHECK(item->value == w->entries[number].value && item->deadline == w->entries[number].deadline);
        CHECK(!it->seen[number]);
        it->seen[number] = 1;
    }
    if (!it->page.done) return;
    for (i = 0; i < KEYS; i++) CHECK(it->seen[i] || !it->steady[i]);
    it->running = false;
}

static void insert_one(world *w, uint32_t number) {
    if (!world_find(w, number) && !world_insert(w, number)) CHECK(memory.failed > 0);
}

static void erase_one(world *w, iteration *it, uint32_t number) {
    gob_record *r = world_find(w, number);
    it->steady[number] = 0;
    if (r) world_erase(w, r);
}

static void run_program(input *in, world *w, iteration *it) {
    uint32_t work = 0;
    while (in->at < in->end && work < WORK) {
        uint32_t op = byte(in), small = op / 16, i, number, count;
        work++;
        switch (op % 16) {
        case 0: case 1: insert_one(w, key_argument(in)); break;
        case 2: erase_one(w, it, key_argument(in)); break;
        case 3: { /* small+1 neighbours at once */
            uint32_t numbers[16];
            number = key_argument(in);
            for (i = 0; i <= small; i++) {
                numbers[i] = (number + i) % KEYS;
                it->steady[numbers[i]] = 0;
            }
            world_erase_several(w, numbers, small + 1);
            work += small;
            break;
        }
        case 4: world_find(w, key_argument(in)); break;
        case 5: /* a range of keys, every (small+1)-th */
        case 6:
            number = key_argument(in);
            count = byte(in) * 4;
            for (i = 0; i < count; i++, number = (number + small + 1) % KEYS) {
                if (op % 16 == 5) insert_one(w, number);
                else erase_one(w, it, number);
            }
            work += count;
            break;
        case 7: /* a deadline */
            number = key_argument(in);
            if (world_find(w, number)) {
                world_set_deadline(w, number, small == 15 ? GOB_NO_DEADLINE : w->now + (int64_t)small * 1000 - 1);
                if (small != 15) it->steady[number] = 0;
            }
            break;
        case 8: w->now += (int64_t)byte(in) * 100; break;
        case 9: world_swept(w, gob_table_tend(&w->table, w->now)); break;
        case 10: world_swept(w, gob_table_sweep(&w->table, w->now, byte(in))); break;
        case 11:
            world_swept(w, gob_table_sweep_all(&w->table, w->now));
            work += 1000;
            break;
        case 12: next_page(w, it); break;
        case 13: /* the next allocation but `small`, and some more, fail */
            memory_fails(small + 1, byte(in) + 1);
            break;
        case 14:
            CHECK_TABLE(&w->table);
            work += 1000;
            break;
        default:
            if (small) break; /* too strong a means to be common */
            world_clear(w);
            memset(it->steady, 0, sizeof it->steady);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static iteration it; /* too large for the stack of some systems */
    static world w;
    uint32_t upper, lower, number;
    uint64_t mask;
    input in;
    in.at = data;
    in.end = data + size;
    option.seed = 1;
    random_restart();
    memory_never_fails();
    memset(&it, 0, sizeof it);
    CHECK(world_begin(&w, HASH_GOOD, KEYS));
    upper = byte(&in) % 65;
    lower = byte(&in) % 33;
    mask = (upper ? UINT64_MAX << (64 - upper) : 0) | ((UINT64_C(1) << lower) - 1);
    for (number = 0; number < KEYS; number++) w.entries[number].hash &= mask;
    run_program(&in, &w, &it);
    memory_never_fails();
    world_verify(&w);
    gob_page_free(&it.page);
    world_end(&w);
    CHECK(memory.blocks == 0);
    return 0;
}

#ifdef REPLAY
int main(int argc, char **argv) {
    static uint8_t data[65536];
    int i;
    for (i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        size_t size;
        CHECK(file);
        size = fread(data, 1, sizeof data, file);
        fclose(file);
        LLVMFuzzerTestOneInput(data, size);
    }
    printf("%d fuzz programs ok\n", argc - 1);
    return 0;
}
#endif
