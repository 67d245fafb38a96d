/* A program that looks like HotSpot of JDK 17 to those who read its structures from outside (its file is to be called libjvm.so), and keeps in
 * them what argument 1 says: a compiled method that is as it should be, or what HotSpot would not write. Its code lies in memory without a
 * file. Computes for argument 2 seconds. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define SHOWN __attribute__((visibility("default")))
#define APART __attribute__((aligned(64))) /* so that what is written behind one is not another */

/* ---- what is published: tables of fields and of sizes, and how their entries are laid out ---- */
struct field {
	const char *structure, *name, *type;
	uint64_t is_static, offset;
	void *address;
};
struct type {
	const char *name;
	uint64_t size;
};
#define NUMBER(name_, value_) SHOWN uint64_t gHotSpotVM##name_ = value_
NUMBER(StructEntryArrayStride, sizeof(struct field));
NUMBER(StructEntryTypeNameOffset, offsetof(struct field, structure));
NUMBER(StructEntryFieldNameOffset, offsetof(struct field, name));
NUMBER(StructEntryTypeStringOffset, offsetof(struct field, type));
NUMBER(StructEntryIsStaticOffset, offsetof(struct field, is_static));
NUMBER(StructEntryOffsetOffset, offsetof(struct field, offset));
NUMBER(StructEntryAddressOffset, offsetof(struct field, address));
NUMBER(TypeEntryArrayStride, sizeof(struct type));
NUMBER(TypeEntryTypeNameOffset, offsetof(struct type, name));
NUMBER(TypeEntrySizeOffset, offsetof(struct type, size));

/* ---- methods ---- */
struct symbol {
	uint16_t length;
	char body[1100];
} APART;
struct klass {
	struct symbol *name;
	uint16_t source_file_name_index;
} APART;
struct constants {
	struct klass *holder;
	uint32_t length;
	struct symbol *constant[4];
} APART;
#define CODE_SIZE 4
struct const_method {
	struct constants *constants;
	uint16_t flags, code_size, name_index, unused;
	uint8_t code[CODE_SIZE];
	uint8_t lines[1 << 16]; /* packed */
} APART;
struct method {
	void *functions; /* at 0 nothing is expected that is read */
	struct const_method *constant;
} APART;

/* ---- compiled code ---- */
struct place {
	int32_t end, scope;
	uint64_t unused;
};
#define PLACES (1 << 18)
#define METHODS 512
struct block {
	uint64_t length;
	uint64_t used;
	/* Of a piece of code. */
	const char *name;
	uint32_t frame_size;
	int32_t frame_complete;
	uint8_t *code_begin;
	struct method *method;
	uint8_t *scopes_begin;
	int32_t metadata_offset, places_offset, places_end, compile_id;
	uint8_t code[64];
	struct method *methods[METHODS];
	uint8_t scopes[8 << 10];
	struct place places[PLACES];
};
#define BLOCK_HEADER offsetof(struct block, name) /* what comes before the piece of code */
#define OF_PIECE(part_) (offsetof(struct block, part_) - BLOCK_HEADER)

struct space {
	uint8_t *low, *high;
};
struct heap {
	struct space memory, segments;
	int32_t segment_bits;
} APART;
struct heap_array {
	int32_t length;
	struct heap **data;
};
struct stub_queue {
	uint8_t *buffer;
	int32_t limit;
};
#define SEGMENT_BITS 7
#define HEAP_BYTES (16ull << 20)

static struct symbol class_name = { 10, "app/Victim" }, method_name = { 6, "victim" }, source_name = { 11, "Victim.java" };
static struct klass klass = { &class_name, 2 };
static struct constants constants = { &klass, 3, { 0, &method_name, &source_name } };
static struct const_method constant = { &constants, 1, CODE_SIZE, 1, 0, { 0 }, { 0xff, 0, 20 } };
static struct method method = { 0, &constant };
static struct method others[METHODS];
static struct const_method *other_constants;
static uint8_t segment_map[HEAP_BYTES >> SEGMENT_BITS];
static struct heap heap = { .segment_bits = SEGMENT_BITS };
static struct heap *heap_list[] = { &heap };
static struct heap_array heaps = { 1, heap_list }, *heaps_at = &heaps;
static struct stub_queue interpreter, *interpreter_at = &interpreter;
static uint32_t version = 17;
static struct block *victim, *stub;
static volatile uint64_t sink;

static struct field table[] = {
	{ "CodeCache", "_heaps", "", 1, 0, &heaps_at },
	{ "GrowableArrayBase", "_len", "int", 0, offsetof(struct heap_array, length), 0 },
	{ "GrowableArray<int>", "_data", "int*", 0, offsetof(struct heap_array, data), 0 },
	{ "CodeHeap", "_memory", "", 0, offsetof(struct heap, memory), 0 },
	{ "CodeHeap", "_segmap", "", 0, offsetof(struct heap, segments), 0 },
	{ "CodeHeap", "_log2_segment_size", "int", 0, offsetof(struct heap, segment_bits), 0 },
	{ "VirtualSpace", "_low_boundary", "", 0, offsetof(struct space, low), 0 },
	{ "VirtualSpace", "_high_boundary", "", 0, offsetof(struct space, high), 0 },
	{ "HeapBlock::Header", "_used", "bool", 0, offsetof(struct block, used), 0 },
	{ "CodeBlob", "_name", "const char*", 0, OF_PIECE(name), 0 },
	{ "CodeBlob", "_frame_size", "int", 0, OF_PIECE(frame_size), 0 },
	{ "CodeBlob", "_frame_complete_offset", "int", 0, OF_PIECE(frame_complete), 0 },
	{ "CodeBlob", "_code_begin", "address", 0, OF_PIECE(code_begin), 0 },
	{ "AbstractInterpreter", "_code", "", 1, 0, &interpreter_at },
	{ "StubQueue", "_stub_buffer", "", 0, offsetof(struct stub_queue, buffer), 0 },
	{ "StubQueue", "_buffer_limit", "int", 0, offsetof(struct stub_queue, limit), 0 },
	{ "Abstract_VM_Version", "_vm_major_version", "int", 1, 0, &version },
	{ "ConstantPool", "_pool_holder", "", 0, offsetof(struct constants, holder), 0 },
	{ "ConstantPool", "_length", "int", 0, offsetof(struct constants, length), 0 },
	{ "ConstMethod", "_constants", "", 0, offsetof(struct const_method, constants), 0 },
	{ "ConstMethod", "_flags", "u2", 0, offsetof(struct const_method, flags), 0 },
	{ "ConstMethod", "_code_size", "u2", 0, offsetof(struct const_method, code_size), 0 },
	{ "ConstMethod", "_name_index", "u2", 0, offsetof(struct const_method, name_index), 0 },
	{ "Method", "_constMethod", "", 0, offsetof(struct method, constant), 0 },
	{ "Klass", "_name", "Symbol*", 0, offsetof(struct klass, name), 0 },
	{ "InstanceKlass", "_source_file_name_index", "u2", 0, offsetof(struct klass, source_file_name_index), 0 },
	{ "Symbol", "_length", "u2", 0, offsetof(struct symbol, length), 0 },
	{ "Symbol", "_body[0]", "u1", 0, offsetof(struct symbol, body), 0 },
	{ "CompiledMethod", "_method", "Method*", 0, OF_PIECE(method), 0 },
	{ "CompiledMethod", "_scopes_data_begin", "address", 0, OF_PIECE(scopes_begin), 0 },
	{ "nmethod", "_metadata_offset", "int", 0, OF_PIECE(metadata_offset), 0 },
	{ "nmethod", "_scopes_pcs_offset", "int", 0, OF_PIECE(places_offset), 0 },
	{ "nmethod", "_dependencies_offset", "int", 0, OF_PIECE(places_end), 0 },
	{ "nmethod", "_compile_id", "int", 0, OF_PIECE(compile_id), 0 },
	{ 0 },
};
static struct type sizes[] = {
	{ "HeapBlock", BLOCK_HEADER },
	{ "PcDesc", sizeof(struct place) },
	{ "ConstMethod", offsetof(struct const_method, code) },
	{ "ConstantPool", offsetof(struct constants, constant) },
	{ 0 },
};
SHOWN struct field *gHotSpotVMStructs = table;
SHOWN struct type *gHotSpotVMTypes = sizes;

/* A frame of four words, and a loop. */
static const uint8_t victim_code[] = {
	0x55, 0x48, 0x83, 0xec, 0x10, /* push rbp; sub rsp, 16 */
	0xb9, 0x40, 0x0d, 0x03, 0x00, /* mov ecx, 200000 */
	0xff, 0xc9, 0x75, 0xfc,       /* dec ecx; jnz */
	0x48, 0x83, 0xc4, 0x10,       /* add rsp, 16 */
	0x5d, 0xc3,                   /* pop rbp; ret */
};
/* Calls its argument, with a frame pointer: as HotSpot's stub from which Java is called. */
static const uint8_t stub_code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };

static struct block *add_block(uint64_t at, const char *name, const uint8_t *code, size_t length)
{
	struct block *block = (void *)(heap.memory.low + at);

	block->used = 1;
	block->name = name;
	block->code_begin = block->code;
	memcpy(block->code, code, length);
	/* The first segment of a block has 0, the others how far it is back. */
	for (uint64_t i = 1; i < sizeof(struct block) >> SEGMENT_BITS; i++)
		segment_map[(at >> SEGMENT_BITS) + i] = i < 0xfe ? i : 0xfd;
	return block;
}

static void build(void)
{
	uint8_t *made = mmap(0, HEAP_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (made == MAP_FAILED)
		exit(1);
	heap.memory = (struct space){ made, made + HEAP_BYTES };
	heap.segments = (struct space){ segment_map, segment_map + sizeof(segment_map) };
	stub = add_block(0, "StubRoutines", stub_code, sizeof(stub_code));
	victim = add_block(HEAP_BYTES / 2, "nmethod", victim_code, sizeof(victim_code));
	victim->frame_size = 4;
	victim->frame_complete = 5;
	victim->method = &method;
	victim->methods[0] = &method;
	victim->scopes_begin = victim->scopes;
	victim->metadata_offset = OF_PIECE(methods);
	victim->places_offset = OF_PIECE(places);
	victim->places_end = victim->places_offset + 2 * sizeof(struct place);
	/* One place, at the second byte of the scopes: no caller, the first method, the instruction before the first. */
	memcpy(victim->scopes, "\0\0\1\0", 4);
	victim->places[0] = (struct place){ -1, 0 };
	victim->places[1] = (struct place){ sizeof(victim_code), 1 };
}

/* As much as can be said: each place leads through others to methods of their own, with long names and tables of lines. */
static void exaggerate(void)
{
	other_constants = calloc(METHODS, sizeof(*other_constants));
	if (!other_constants)
		exit(1);
	method_name.length = 0xffff;
	memset(method_name.body, 'x', sizeof(method_name.body));
	for (int i = 0; i < METHODS; i++) {
		other_constants[i] = constant;
		memset(other_constants[i].lines, 9, sizeof(constant.lines));
		others[i].constant = &other_constants[i];
		victim->methods[i] = &others[i];
	}
	victim->places_end = victim->places_offset + PLACES * sizeof(struct place);
	for (int i = 1; i < PLACES; i++)
		victim->places[i] = (struct place){ i, i % (sizeof(victim->scopes) - 8) };
	/* A byte is a caller, a method or an instruction, depending on where one begins. From 192 on it would be a part of a number. */
	for (size_t i = 1; i < sizeof(victim->scopes); i++)
		victim->scopes[i] = i < 192 ? i - 1 : 191;
}

static void spoil(const char *how)
{
	if (!strcmp(how, "garbage")) { /* the map of segments leads out of itself, the method nowhere */
		memset(segment_map, 0xfd, sizeof(segment_map));
		victim->method = (void *)0x4141414141414141;
	} else if (!strcmp(how, "kernel")) {
		constant.constants = (void *)0xffffffff81000000;
		heap.segments.low = (void *)0xffffffff81000000;
	} else if (!strcmp(how, "cycle")) { /* a scope that is its own caller */
		victim->scopes[1] = 1;
	} else if (!strcmp(how, "table")) { /* a table of fields that never ends */
		gHotSpotVMStructEntryArrayStride = 0;
	} else if (!strcmp(how, "giant")) {
		exaggerate();
	} else if (!strcmp(how, "frames")) { /* frames of four gigabytes */
		victim->frame_size = 0xffffffff;
	}
}

/* Something else each time, some of it pointers to its own objects. What is executed stays. */
static void rewrite(void)
{
	void *all[] = { &method, &constant, &constants, &klass, &class_name, &method_name, &heap, segment_map + (HEAP_BYTES >> (SEGMENT_BITS + 1)) };
	uint64_t value = sink >> 63 ? (uint64_t)all[sink >> 60 & 7] : sink >> (sink & 63);
	uint64_t place = sink >> 40 & 15;

	if (place < 8)
		memcpy((uint8_t *)all[place] + (sink >> 50 & 24), &value, 8);
	else
		memcpy((uint8_t *)&victim->name + (sink >> 50) % 7 * 8, &value, 8);
}

static double now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int count, char **arguments)
{
	const char *how = count > 1 ? arguments[1] : "good";
	double end = now() + (count > 2 ? atof(arguments[2]) : 1);
	int is_rewritten = !strcmp(how, "rewrite"), is_giant = !strcmp(how, "giant");

	build();
	spoil(how);
	do {
		((void (*)(void *))stub->code)(victim->code);
		sink = sink * 6364136223846793005 + 1442695040888963407;
		victim->compile_id += is_giant; /* a new compilation each time */
		if (is_rewritten)
			rewrite();
	} while (now() < end);
	return 0;
}
